-- What is there already is left alone: the unique work ID decides.
INSERT INTO {schema}dibs_effects (
    work_id, job, item_key, cycle, run_id, state, claim_token, fence, lease_end, request_hash, intended_at, updated_at)
SELECT dibs_r.w, dibs_r.jb, dibs_r.ik, dibs_r.y::bigint, dibs_r.rid, 'intended', dibs_r.t, 1,
       {clock} + :lease::bigint * interval '1 microsecond', dibs_r.h, {clock}, {clock}
FROM json_to_recordset(:items::text::json) AS dibs_r ({fields})
ON CONFLICT (work_id) DO NOTHING
RETURNING work_id, item_key
