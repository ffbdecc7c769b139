SELECT lease_end, stop_by, {clock}
FROM {schema}dibs_runs
WHERE id = :id AND token = :token
