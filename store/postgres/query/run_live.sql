SELECT {run_columns}
FROM {schema}dibs_runs
WHERE state = 'running' AND job = :job AND lease_end > 'epoch'::timestamptz + :now::bigint * interval '1 microsecond'
ORDER BY started_at, id
