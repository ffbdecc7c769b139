-- The whole condition again, as it is written: a renewal that came first wins.
UPDATE {schema}dibs_runs
SET state = 'lost', reason = :reason, ended_at = 'epoch'::timestamptz + :now::bigint * interval '1 microsecond'
WHERE id = :id AND token = :token AND state = 'running' AND lease_end <= 'epoch'::timestamptz + :now::bigint * interval '1 microsecond'
