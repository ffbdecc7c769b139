id, job, lock_name, origin, (extract(epoch FROM slot) * 1000000)::bigint, external_id, item_key,
       decision, reason, detail, run_id,
       blocking_run, blocking_holder, (extract(epoch FROM blocking_until) * 1000000)::bigint, covered,
       owns_slot IS NOT NULL OR owns_external IS NOT NULL,
       executor, (extract(epoch FROM waiter_until) * 1000000)::bigint, by_whom, why,
       (extract(epoch FROM created_at) * 1000000)::bigint, (extract(epoch FROM decided_at) * 1000000)::bigint,
       (extract(epoch FROM waiting_since) * 1000000)::bigint, waiting_key IS NOT NULL, missed
