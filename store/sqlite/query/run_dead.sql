-- A person's word that the process is gone stands for the end of the lease.
UPDATE {schema}dibs_runs
SET state = 'lost', reason = :reason, ended_at = :now
WHERE id = :id AND token = :token AND state = 'running'
