-- Some labels that the status column holds.
SELECT DISTINCT {status}
FROM (SELECT * FROM {table} LIMIT 10000) AS dibs_s
LIMIT 50
