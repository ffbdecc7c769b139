WITH dibs_r AS MATERIALIZED (
    SELECT {merged}
    FROM json_to_recordset(:items::text::json) AS dibs_j ({fields}),
         json_to_record(:same::text::json) AS dibs_s ({own_fields})
), dibs_u AS (
    UPDATE {table} AS {w}
    SET {settle_set}
    FROM dibs_r
    WHERE {key_match}
      AND {proof}
    RETURNING dibs_r.*
), dibs_o AS (
    INSERT INTO {schema}dibs_outcomes (
        token, item_key, late, run_id, job, work_id, fence, attempt, outcome, reason,
        receipt_id, evidence, error, took_us, recorded_at)
    SELECT t, ik, false, rid, job, wid, f::bigint, n::integer, o, re, rc, ev, oe, tk::bigint, {clock}
    FROM dibs_u
    ON CONFLICT (token, item_key, late) DO NOTHING
)
SELECT {key_names} FROM dibs_u
