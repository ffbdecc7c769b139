-- Fails as a duplicate when the ID, or the slot that it would own, is there
-- already.
INSERT INTO {schema}dibs_triggers (
    id, job, lock_name, origin, slot, owns_slot, external_id, owns_external, item_key,
    decision, reason, detail, run_id, blocking_run, blocking_holder, blocking_until,
    covered, executor, waiter_until, waiting_key, waiting_since, missed, by_whom, why, created_at, decided_at)
VALUES (
    :id, :job, :lock, :origin, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :owns_slot MICROSECOND, :external_id, :owns_external, :key,
    :decision, :reason, :detail, :run, :blocking_run, :blocking_holder,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :blocking_until MICROSECOND,
    :covered, :executor, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :waiter_until MICROSECOND, :waiting_key,
    TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :waiting_since MICROSECOND, :missed, :by, :why,
    coalesce(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :created_at MICROSECOND, {clock}),
    CASE WHEN :decision = 'waiting' THEN NULL ELSE coalesce(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :decided_at MICROSECOND, {clock}) END)
