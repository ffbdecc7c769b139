-- The whole condition again, as it is written: a renewal that came first wins.
UPDATE {schema}dibs_runs
SET state = 'lost', reason = :reason, ended_at = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND
WHERE id = :id AND token = :token AND state = 'running' AND lease_end <= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND
