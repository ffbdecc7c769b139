-- What is there already is left alone: the unique work ID decides.
INSERT INTO {schema}dibs_effects (
    work_id, job, item_key, cycle, run_id, state, claim_token, fence, lease_end, request_hash, intended_at, updated_at)
SELECT dibs_r.w, dibs_r.jb, dibs_r.ik, CAST(dibs_r.y AS SIGNED), dibs_r.rid, 'intended', dibs_r.t, 1,
       {clock} + INTERVAL :lease MICROSECOND, dibs_r.h, {clock}, {clock}
FROM JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
ON DUPLICATE KEY UPDATE fence = dibs_effects.fence
