UPDATE {schema}dibs_triggers
SET lock_name = :lock, slot = 'epoch'::timestamptz + :slot::bigint * interval '1 microsecond',
       owns_slot = 'epoch'::timestamptz + :owns_slot::bigint * interval '1 microsecond',
       owns_external = :owns_external,
    decision = :decision, reason = :reason, detail = :detail, run_id = :run,
    blocking_run = :blocking_run, blocking_holder = :blocking_holder,
    blocking_until = 'epoch'::timestamptz + :blocking_until::bigint * interval '1 microsecond',
    covered = :covered, executor = :executor,
    waiter_until = 'epoch'::timestamptz + :waiter_until::bigint * interval '1 microsecond',
    waiting_key = :waiting_key, waiting_since = 'epoch'::timestamptz + :waiting_since::bigint * interval '1 microsecond', missed = :missed,
    decided_at = CASE WHEN :decision = 'waiting' THEN NULL ELSE coalesce('epoch'::timestamptz + :decided_at::bigint * interval '1 microsecond', {clock}) END
WHERE id = :id
