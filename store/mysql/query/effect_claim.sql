-- f is the fence as it was read under the lock.
UPDATE JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
STRAIGHT_JOIN {schema}dibs_effects AS e ON e.work_id = CAST(dibs_r.w AS BINARY)
SET e.claim_token = dibs_r.t,
    e.fence = e.fence + 1,
    e.lease_end = {clock} + INTERVAL :lease MICROSECOND,
    e.run_id = dibs_r.rid,
    e.state = dibs_r.st,
    e.item_key = dibs_r.ik,
    e.cycle = CAST(dibs_r.y AS SIGNED),
    e.request_hash = coalesce(dibs_r.h, e.request_hash),
    e.lookups = CAST(dibs_r.n AS SIGNED),
    e.look_at = '1970-01-01' + INTERVAL CAST(dibs_r.la AS SIGNED) MICROSECOND,
    e.sent_until = '1970-01-01' + INTERVAL CAST(dibs_r.su AS SIGNED) MICROSECOND,
    e.intended_at = CASE WHEN dibs_r.ia = '1' THEN {clock} ELSE e.intended_at END,
    e.updated_at = {clock}
WHERE e.fence = CAST(dibs_r.f AS SIGNED)
