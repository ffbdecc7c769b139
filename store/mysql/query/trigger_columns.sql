id, job, lock_name, origin, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', slot), external_id, item_key,
       decision, reason, detail, run_id,
       blocking_run, blocking_holder, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', blocking_until), covered,
       owns_slot IS NOT NULL OR owns_external IS NOT NULL,
       executor, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', waiter_until), by_whom, why,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', decided_at),
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', waiting_since), waiting_key IS NOT NULL, missed
