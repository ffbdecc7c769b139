SELECT (extract(epoch FROM CASE WHEN state = 'running' THEN lease_end END) * 1000000)::bigint,
       (extract(epoch FROM stop_by) * 1000000)::bigint,
       (extract(epoch FROM {clock}) * 1000000)::bigint
FROM {schema}dibs_runs
WHERE id = :id AND token = :token
