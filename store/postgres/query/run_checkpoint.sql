-- The fence of every claim and settle: still running, still this token's.
UPDATE {schema}dibs_runs
SET selected = :selected::bigint, completed = :completed::bigint, already_done = :already_done::bigint,
    failed = :failed::bigint, rejected = :rejected::bigint, uncertain = :uncertain::bigint, held = :held::bigint,
    released = :released::bigint, lost = :lost::bigint, remaining = :remaining::bigint, position = :position::text
WHERE id = :id::text AND token = :token::text AND state = 'running'
RETURNING CASE WHEN stop_by IS NULL OR stop_by > {clock} THEN 1 ELSE 0 END,
          (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
