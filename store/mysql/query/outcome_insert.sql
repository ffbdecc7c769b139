-- Only who has the row writes late = 0, so that a conflict means: written before.
INSERT INTO {schema}dibs_outcomes (
    token, item_key, late, run_id, job, work_id, fence, attempt, outcome, reason,
    receipt_id, evidence, error, took_us, recorded_at)
SELECT dibs_r.t, dibs_r.ik, :late, dibs_r.rid,
       coalesce(nullif(dibs_r.job, ''), (SELECT r.job FROM {schema}dibs_runs r WHERE r.id = dibs_r.rid), ''),
       dibs_r.wid, CAST(dibs_r.f AS SIGNED), CAST(dibs_r.n AS SIGNED), dibs_r.o, dibs_r.re,
       dibs_r.rc, dibs_r.ev, dibs_r.oe, CAST(dibs_r.tk AS SIGNED), {clock}
FROM JSON_TABLE(:items, '$[*]' COLUMNS ({outcome_fields})) AS dibs_r
ON DUPLICATE KEY UPDATE took_us = took_us
