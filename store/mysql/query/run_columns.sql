id, job, lock_name, trigger_id, origin, kind, state, reason,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', slot), item_key, definition,
       holder, token, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lease_end), lease_us,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', heartbeat_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', stop_by), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at),
       selected, completed, already_done, failed, rejected, uncertain, held, released, lost, remaining,
       position, exit_code, error,
       output,  -- if !listed
       NULL,  -- if listed
       recovers, previous
