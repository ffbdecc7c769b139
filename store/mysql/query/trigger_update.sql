UPDATE {schema}dibs_triggers
SET lock_name = :lock, slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND,
       owns_slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :owns_slot MICROSECOND,
       owns_external = :owns_external,
    decision = :decision, reason = :reason, detail = :detail, run_id = :run,
    blocking_run = :blocking_run, blocking_holder = :blocking_holder,
    blocking_until = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :blocking_until MICROSECOND,
    covered = :covered, executor = :executor,
    waiter_until = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :waiter_until MICROSECOND,
    waiting_key = :waiting_key, waiting_since = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :waiting_since MICROSECOND, missed = :missed,
    decided_at = CASE WHEN :decision = 'waiting' THEN NULL ELSE coalesce(TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :decided_at MICROSECOND, {clock}) END
WHERE id = :id
