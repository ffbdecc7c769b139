SELECT {run_columns}
FROM {schema}dibs_runs
WHERE state = 'running' AND lease_end <= {clock}
ORDER BY lease_end
LIMIT :limit
