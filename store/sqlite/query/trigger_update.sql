UPDATE {schema}dibs_triggers
SET lock_name = :lock, slot = :slot, owns_slot = :owns_slot, owns_external = :owns_external,
    decision = :decision, reason = :reason, detail = :detail, run_id = :run,
    blocking_run = :blocking_run, blocking_holder = :blocking_holder, blocking_until = :blocking_until,
    covered = :covered, executor = :executor, waiter_until = :waiter_until,
    waiting_key = :waiting_key, waiting_since = :waiting_since, missed = :missed,
    decided_at = CASE WHEN :decision = 'waiting' THEN NULL ELSE coalesce(:decided_at, {clock}) END
WHERE id = :id
