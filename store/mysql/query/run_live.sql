SELECT {run_columns}
FROM {schema}dibs_runs
WHERE state = 'running' AND job = :job AND lease_end > TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND
ORDER BY started_at, id
