-- f is the fence as it was read under the lock.
UPDATE {schema}dibs_effects AS e
SET claim_token = dibs_r.t,
    fence = e.fence + 1,
    lease_end = {clock} + :lease::bigint * interval '1 microsecond',
    run_id = dibs_r.rid,
    state = dibs_r.st,
    item_key = dibs_r.ik,
    cycle = dibs_r.y::bigint,
    request_hash = coalesce(dibs_r.h, e.request_hash),
    lookups = dibs_r.n::bigint,
    look_at = '1970-01-01Z'::timestamptz + dibs_r.la::bigint * interval '1 microsecond',
    sent_until = '1970-01-01Z'::timestamptz + dibs_r.su::bigint * interval '1 microsecond',
    intended_at = CASE WHEN dibs_r.ia = '1' THEN {clock} ELSE e.intended_at END,
    updated_at = {clock}
FROM json_to_recordset(:items::text::json) AS dibs_r ({fields})
WHERE e.work_id = dibs_r.w
  AND e.fence = dibs_r.f::bigint
