-- A person's word that the process is gone stands for the end of the lease.
UPDATE {schema}dibs_runs
SET state = 'lost', reason = :reason, ended_at = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND
WHERE id = :id AND token = :token AND state = 'running'
