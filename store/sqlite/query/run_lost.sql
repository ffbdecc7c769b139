-- The whole condition again, as it is written: a renewal that came first wins.
UPDATE {schema}dibs_runs
SET state = 'lost', reason = :reason, ended_at = :now
WHERE id = :id AND token = :token AND state = 'running' AND lease_end <= :now
