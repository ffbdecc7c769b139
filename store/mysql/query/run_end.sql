UPDATE {schema}dibs_runs
SET state = :state, reason = :reason, ended_at = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND,
    selected = :selected, completed = :completed, already_done = :already_done, failed = :failed,
    rejected = :rejected, uncertain = :uncertain, held = :held, released = :released, lost = :lost,
    remaining = :remaining, exit_code = :exit_code, error = :error, output = :output
WHERE id = :id AND token = :token AND state = 'running'
