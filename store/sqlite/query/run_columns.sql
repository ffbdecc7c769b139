id, job, lock_name, trigger_id, origin, kind, state, reason, slot, item_key, definition,
       holder, token, lease_end, lease_us, heartbeat_at, stop_by, started_at, ended_at,
       selected, completed, already_done, failed, rejected, uncertain, held, released, lost, remaining,
       position, exit_code, error,
       output,  -- if !listed
       NULL,  -- if listed
       recovers, previous
