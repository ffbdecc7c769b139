SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', CASE WHEN state = 'running' THEN lease_end END),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', stop_by),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {clock})
FROM {schema}dibs_runs
WHERE id = :id AND token = :token
