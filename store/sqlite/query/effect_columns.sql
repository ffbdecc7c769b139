work_id, job, item_key, cycle, run_id, state, reason, claim_token, fence, lease_end, request_hash,
destination_id, evidence, error, lookups, look_at, sent_until, intended_at,
settled_at, updated_at, {clock}
