id, job, lock_name, trigger_id, origin, kind, state, reason,
       (extract(epoch FROM slot) * 1000000)::bigint, item_key, definition,
       holder, token, (extract(epoch FROM lease_end) * 1000000)::bigint, lease_us,
       (extract(epoch FROM heartbeat_at) * 1000000)::bigint, (extract(epoch FROM stop_by) * 1000000)::bigint,
       (extract(epoch FROM started_at) * 1000000)::bigint, (extract(epoch FROM ended_at) * 1000000)::bigint,
       selected, completed, already_done, failed, rejected, uncertain, held, released, lost, remaining,
       position, exit_code, error,
       output,  -- if !listed
       NULL,  -- if listed
       recovers, previous
