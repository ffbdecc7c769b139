-- The fence of every claim and settle: still running, still this token's.
SELECT CASE WHEN stop_by IS NULL OR stop_by > {clock} THEN 1 ELSE 0 END,
       TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {clock})
FROM {schema}dibs_runs
WHERE id = :id AND token = :token AND state = 'running'
FOR UPDATE
