-- Only who has the row writes late = 0, so that a conflict means: written before.
WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
INSERT INTO {schema}dibs_outcomes (
    token, item_key, late, run_id, job, work_id, fence, attempt, outcome, reason,
    receipt_id, evidence, error, took_us, recorded_at)
SELECT j ->> '$.t', j ->> '$.ik', :late, j ->> '$.rid',
       coalesce(nullif(j ->> '$.job', ''),
                (SELECT r.job FROM {schema}dibs_runs r WHERE r.id = j ->> '$.rid'), ''),
       j ->> '$.wid', CAST(j ->> '$.f' AS INTEGER), CAST(j ->> '$.n' AS INTEGER),
       j ->> '$.o', j ->> '$.re', j ->> '$.rc', j ->> '$.ev', j ->> '$.oe',
       CAST(j ->> '$.tk' AS INTEGER), {clock}
FROM dibs_r
WHERE true
ON CONFLICT (token, item_key, late) DO NOTHING
