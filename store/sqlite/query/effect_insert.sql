-- What is there already is left alone: the unique work ID decides.
WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
INSERT INTO {schema}dibs_effects (
    work_id, job, item_key, cycle, run_id, state, claim_token, fence, lease_end, request_hash, intended_at, updated_at)
SELECT dibs_r.j ->> '$.w', dibs_r.j ->> '$.jb', dibs_r.j ->> '$.ik', CAST(dibs_r.j ->> '$.y' AS INTEGER), dibs_r.j ->> '$.rid', 'intended', dibs_r.j ->> '$.t', 1,
       {clock} + :lease, dibs_r.j ->> '$.h', {clock}, {clock}
FROM dibs_r
WHERE true
ON CONFLICT (work_id) DO NOTHING
RETURNING work_id, item_key
