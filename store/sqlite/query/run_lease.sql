SELECT CASE WHEN state = 'running' THEN lease_end END, stop_by, {clock}
FROM {schema}dibs_runs
WHERE id = :id AND token = :token
