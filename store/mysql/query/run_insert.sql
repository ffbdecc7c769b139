INSERT INTO {schema}dibs_runs (
    id, job, lock_name, trigger_id, origin, kind, state, slot, item_key, definition,
    holder, token, lease_end, lease_us, heartbeat_at, stop_by, started_at, recovers, previous)
VALUES (
    :id, :job, :lock, :trigger, :origin, :kind, 'running',
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND, :key, :definition,
    :holder, :token, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :lease_end MICROSECOND, :lease_us,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :stop_by MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :now MICROSECOND, :recovers, :previous)
