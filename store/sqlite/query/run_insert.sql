INSERT INTO {schema}dibs_runs (
    id, job, lock_name, trigger_id, origin, kind, state, slot, item_key, definition,
    holder, token, lease_end, lease_us, heartbeat_at, stop_by, started_at, recovers, previous)
VALUES (
    :id, :job, :lock, :trigger, :origin, :kind, 'running', :slot, :key, :definition,
    :holder, :token, :lease_end, :lease_us, :now, :stop_by, :now, :recovers, :previous)
