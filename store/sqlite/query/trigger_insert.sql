-- Inserts nothing when the ID, or the slot that it would own, is there already.
INSERT INTO {schema}dibs_triggers (
    id, job, lock_name, origin, slot, owns_slot, external_id, owns_external, item_key,
    decision, reason, detail, run_id, blocking_run, blocking_holder, blocking_until,
    covered, executor, waiter_until, waiting_key, waiting_since, missed, by_whom, why, created_at, decided_at)
VALUES (
    :id, :job, :lock, :origin, :slot, :owns_slot, :external_id, :owns_external, :key,
    :decision, :reason, :detail, :run, :blocking_run, :blocking_holder, :blocking_until,
    :covered, :executor, :waiter_until, :waiting_key,
    :waiting_since, :missed, :by, :why,
    coalesce(:created_at, {clock}),
    CASE WHEN :decision = 'waiting' THEN NULL ELSE coalesce(:decided_at, {clock}) END)
ON CONFLICT DO NOTHING
