WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
INSERT INTO {schema}dibs_findings (
    run_id, job, work_id, item_key, kind, destination_id, evidence, detail, found_at)
SELECT dibs_r.j ->> '$.rid', dibs_r.j ->> '$.jb', dibs_r.j ->> '$.w', dibs_r.j ->> '$.ik', dibs_r.j ->> '$.st', dibs_r.j ->> '$.rc', dibs_r.j ->> '$.ev', dibs_r.j ->> '$.oe', {clock}
FROM dibs_r
