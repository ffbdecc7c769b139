-- Both or none: who holds the lock was locked together with its run before.
WITH freed AS (
    UPDATE {schema}dibs_locks SET run = NULL
    WHERE name = :lock AND run = :id
      AND EXISTS (SELECT 1 FROM {schema}dibs_runs WHERE id = :id AND token = :token AND state = 'running')
)
UPDATE {schema}dibs_runs
SET state = :state, reason = :reason, ended_at = 'epoch'::timestamptz + :now::bigint * interval '1 microsecond',
    selected = :selected, completed = :completed, already_done = :already_done, failed = :failed,
    rejected = :rejected, uncertain = :uncertain, held = :held, released = :released, lost = :lost,
    remaining = :remaining, exit_code = :exit_code, error = :error, output = :output
WHERE id = :id AND token = :token AND state = 'running'
