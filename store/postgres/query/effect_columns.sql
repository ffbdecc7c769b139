work_id, job, item_key, cycle, run_id, state, reason, claim_token, fence, (extract(epoch FROM lease_end) * 1000000)::bigint, request_hash,
destination_id, evidence, error, lookups, (extract(epoch FROM look_at) * 1000000)::bigint, (extract(epoch FROM sent_until) * 1000000)::bigint, (extract(epoch FROM intended_at) * 1000000)::bigint,
(extract(epoch FROM settled_at) * 1000000)::bigint, (extract(epoch FROM updated_at) * 1000000)::bigint, (extract(epoch FROM {clock}) * 1000000)::bigint
