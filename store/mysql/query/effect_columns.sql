work_id, job, item_key, cycle, run_id, state, reason, claim_token, fence, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lease_end), request_hash,
destination_id, evidence, error, lookups, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', look_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', sent_until), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', intended_at),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', settled_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', updated_at), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {clock})
