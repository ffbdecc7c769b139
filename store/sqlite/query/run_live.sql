SELECT {run_columns}
FROM {schema}dibs_runs
WHERE state = 'running' AND job = :job AND lease_end > :now
ORDER BY started_at, id
