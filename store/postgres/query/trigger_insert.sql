-- Inserts nothing when the ID, or the slot that it would own, is there already.
INSERT INTO {schema}dibs_triggers (
    id, job, lock_name, origin, slot, owns_slot, external_id, owns_external, item_key,
    decision, reason, detail, run_id, blocking_run, blocking_holder, blocking_until,
    covered, executor, waiter_until, waiting_key, waiting_since, missed, by_whom, why, created_at, decided_at)
VALUES (
    :id, :job, :lock, :origin, 'epoch'::timestamptz + :slot::bigint * interval '1 microsecond',
    'epoch'::timestamptz + :owns_slot::bigint * interval '1 microsecond', :external_id, :owns_external, :key,
    :decision, :reason, :detail, :run, :blocking_run, :blocking_holder,
    'epoch'::timestamptz + :blocking_until::bigint * interval '1 microsecond',
    :covered, :executor, 'epoch'::timestamptz + :waiter_until::bigint * interval '1 microsecond', :waiting_key,
    'epoch'::timestamptz + :waiting_since::bigint * interval '1 microsecond', :missed, :by, :why,
    coalesce('epoch'::timestamptz + :created_at::bigint * interval '1 microsecond', {clock}),
    CASE WHEN :decision = 'waiting' THEN NULL ELSE coalesce('epoch'::timestamptz + :decided_at::bigint * interval '1 microsecond', {clock}) END)
ON CONFLICT DO NOTHING
