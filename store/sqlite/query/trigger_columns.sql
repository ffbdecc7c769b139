id, job, lock_name, origin, slot, external_id, item_key, decision, reason, detail, run_id,
       blocking_run, blocking_holder, blocking_until, covered,
       owns_slot IS NOT NULL OR owns_external IS NOT NULL,
       executor, waiter_until, by_whom, why, created_at, decided_at,
       waiting_since, waiting_key IS NOT NULL, missed
