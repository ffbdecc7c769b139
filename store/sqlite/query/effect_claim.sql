-- f is the fence as it was read under the lock.
WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
UPDATE {schema}dibs_effects AS e
SET claim_token = dibs_r.j ->> '$.t',
    fence = e.fence + 1,
    lease_end = {clock} + :lease,
    run_id = dibs_r.j ->> '$.rid',
    state = dibs_r.j ->> '$.st',
    item_key = dibs_r.j ->> '$.ik',
    cycle = CAST(dibs_r.j ->> '$.y' AS INTEGER),
    request_hash = coalesce(dibs_r.j ->> '$.h', e.request_hash),
    lookups = CAST(dibs_r.j ->> '$.n' AS INTEGER),
    look_at = CAST(dibs_r.j ->> '$.la' AS INTEGER),
    sent_until = CAST(dibs_r.j ->> '$.su' AS INTEGER),
    intended_at = CASE WHEN dibs_r.j ->> '$.ia' = '1' THEN {clock} ELSE e.intended_at END,
    updated_at = {clock}
FROM dibs_r
WHERE e.work_id = dibs_r.j ->> '$.w'
  AND e.fence = CAST(dibs_r.j ->> '$.f' AS INTEGER)
