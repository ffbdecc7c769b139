-- A lease that has ended and that nobody took may still be settled; without one,
-- the claim was settled before.
WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
UPDATE {schema}dibs_effects AS e
SET look_at = CASE WHEN dibs_r.j ->> '$.li' IS NOT NULL THEN {clock} + CAST(dibs_r.j ->> '$.li' AS INTEGER) ELSE e.look_at END,
    sent_until = CASE WHEN dibs_r.j ->> '$.li' IS NOT NULL THEN {clock} ELSE e.sent_until END,
    state = dibs_r.j ->> '$.st',
    reason = dibs_r.j ->> '$.re',
    destination_id = coalesce(dibs_r.j ->> '$.rc', e.destination_id),
    evidence = coalesce(dibs_r.j ->> '$.ev', e.evidence),
    error = dibs_r.j ->> '$.oe',
    lookups = CAST(dibs_r.j ->> '$.n' AS INTEGER),
    lease_end = NULL,
    settled_at = CASE WHEN dibs_r.j ->> '$.st' = 'uncertain' THEN NULL ELSE {clock} END,
    updated_at = {clock}
FROM dibs_r
WHERE e.work_id = dibs_r.j ->> '$.w'
  AND e.claim_token = dibs_r.j ->> '$.t'
  AND e.fence = CAST(dibs_r.j ->> '$.f' AS INTEGER)
  AND e.lease_end IS NOT NULL
