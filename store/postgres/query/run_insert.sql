INSERT INTO {schema}dibs_runs (
    id, job, lock_name, trigger_id, origin, kind, state, slot, item_key, definition,
    holder, token, lease_end, lease_us, heartbeat_at, stop_by, started_at, recovers, previous)
VALUES (
    :id, :job, :lock, :trigger, :origin, :kind, 'running',
    'epoch'::timestamptz + :slot::bigint * interval '1 microsecond', :key, :definition,
    :holder, :token, 'epoch'::timestamptz + :lease_end::bigint * interval '1 microsecond', :lease_us::bigint,
    'epoch'::timestamptz + :now::bigint * interval '1 microsecond',
    'epoch'::timestamptz + :stop_by::bigint * interval '1 microsecond',
    'epoch'::timestamptz + :now::bigint * interval '1 microsecond', :recovers, :previous)
