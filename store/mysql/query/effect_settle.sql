-- A lease that has ended and that nobody took may still be settled; without one,
-- the claim was settled before.
UPDATE JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
STRAIGHT_JOIN {schema}dibs_effects AS e ON e.work_id = CAST(dibs_r.w AS BINARY)
SET e.look_at = CASE WHEN dibs_r.li IS NOT NULL THEN {clock} + INTERVAL CAST(dibs_r.li AS SIGNED) MICROSECOND ELSE e.look_at END,
    e.sent_until = CASE WHEN dibs_r.li IS NOT NULL THEN {clock} ELSE e.sent_until END,
    e.state = dibs_r.st,
    e.reason = dibs_r.re,
    e.destination_id = coalesce(dibs_r.rc, e.destination_id),
    e.evidence = coalesce(dibs_r.ev, e.evidence),
    e.error = dibs_r.oe,
    e.lookups = CAST(dibs_r.n AS SIGNED),
    e.lease_end = NULL,
    e.settled_at = CASE WHEN dibs_r.st = 'uncertain' THEN NULL ELSE {clock} END,
    e.updated_at = {clock}
WHERE e.claim_token = CAST(dibs_r.t AS BINARY)
  AND e.fence = CAST(dibs_r.f AS SIGNED)
  AND e.lease_end IS NOT NULL
