-- Only who has the row writes late = false, so that a conflict means: written
-- before.
INSERT INTO {schema}dibs_outcomes (
    token, item_key, late, run_id, job, work_id, fence, attempt, outcome, reason,
    receipt_id, evidence, error, took_us, recorded_at)
SELECT t, ik, :late::bigint = 1, rid,
       coalesce(nullif(job, ''), (SELECT r.job FROM {schema}dibs_runs r WHERE r.id = rid), ''),
       wid, f::bigint, n::integer, o, re, rc, ev, oe, tk::bigint, {clock}
FROM json_to_recordset(:items::text::json) AS dibs_r ({outcome_fields})
ON CONFLICT (token, item_key, late) DO NOTHING
