-- Only who has the row writes late = 0, so that a conflict means: written before.
INSERT INTO {schema}dibs_outcomes (
    token, item_key, late, run_id, job, work_id, fence, attempt, outcome, reason,
    receipt_id, evidence, error, took_us, recorded_at)
SELECT value ->> '$.t', value ->> '$.ik', :late, value ->> '$.rid',
       coalesce(nullif(value ->> '$.job', ''),
                (SELECT r.job FROM {schema}dibs_runs r WHERE r.id = value ->> '$.rid'), ''),
       value ->> '$.wid', CAST(value ->> '$.f' AS INTEGER), CAST(value ->> '$.n' AS INTEGER),
       value ->> '$.o', value ->> '$.re', value ->> '$.rc', value ->> '$.ev', value ->> '$.oe',
       CAST(value ->> '$.tk' AS INTEGER), {clock}
FROM json_each(:items)
WHERE true
ON CONFLICT (token, item_key, late) DO NOTHING
