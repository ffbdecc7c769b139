-- code, severity, problem, why, fix; what is ok is a fact for people.
SELECT 'version',
       CASE WHEN v < 130000 THEN 'error' WHEN v >= 190000 THEN 'note' ELSE 'ok' END,
       'PostgreSQL ' || current_setting('server_version') ||
           CASE WHEN v < 130000 THEN ' is older than 13' WHEN v >= 190000 THEN ' is newer than any that this program was tried on' ELSE '' END,
       CASE WHEN v < 130000 THEN 'its SQL lacks what a claim is made of' ELSE '' END,
       CASE WHEN v < 130000 THEN 'use PostgreSQL 13 or later' ELSE '' END
FROM (SELECT current_setting('server_version_num')::int AS v) AS s
UNION ALL
SELECT 'session_zone', 'ok', 'session zone ' || current_setting('TimeZone') || '; all times are UTC whatever it is', '', ''
UNION ALL
SELECT 'standby', 'error', 'the server is a standby', 'it takes no writes', 'connect to the primary'
WHERE pg_catalog.pg_is_in_recovery()
UNION ALL
SELECT 'read_only', 'error', 'transactions are read-only by default', 'nothing can be claimed', 'unset default_transaction_read_only for this role or database'
WHERE current_setting('default_transaction_read_only') = 'on'
