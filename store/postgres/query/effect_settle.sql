-- A lease that has ended and that nobody took may still be settled; without one,
-- the claim was settled before.
UPDATE {schema}dibs_effects AS e
SET look_at = CASE WHEN dibs_r.li IS NOT NULL THEN {clock} + dibs_r.li::bigint * interval '1 microsecond' ELSE e.look_at END,
    sent_until = CASE WHEN dibs_r.li IS NOT NULL THEN {clock} ELSE e.sent_until END,
    state = dibs_r.st,
    reason = dibs_r.re,
    destination_id = coalesce(dibs_r.rc, e.destination_id),
    evidence = coalesce(dibs_r.ev, e.evidence),
    error = dibs_r.oe,
    lookups = dibs_r.n::bigint,
    lease_end = NULL,
    settled_at = CASE WHEN dibs_r.st = 'uncertain' THEN NULL ELSE {clock} END,
    updated_at = {clock}
FROM json_to_recordset(:items::text::json) AS dibs_r ({fields})
WHERE e.work_id = dibs_r.w
  AND e.claim_token = dibs_r.t
  AND e.fence = dibs_r.f::bigint
  AND e.lease_end IS NOT NULL
