UPDATE {schema}dibs_runs
SET selected = :selected, completed = :completed, already_done = :already_done, failed = :failed,
    rejected = :rejected, uncertain = :uncertain, held = :held, released = :released, lost = :lost,
    remaining = :remaining, position = :position
WHERE id = :id AND token = :token AND state = 'running'
