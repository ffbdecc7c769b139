-- A person's word that the process is gone stands for the end of the lease.
UPDATE {schema}dibs_runs
SET state = 'lost', reason = :reason, ended_at = 'epoch'::timestamptz + :now::bigint * interval '1 microsecond'
WHERE id = :id AND token = :token AND state = 'running'
