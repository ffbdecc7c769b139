INSERT INTO {schema}dibs_findings (
    run_id, job, work_id, item_key, kind, destination_id, evidence, detail, found_at)
SELECT dibs_r.rid, dibs_r.jb, dibs_r.w, dibs_r.ik, dibs_r.st, dibs_r.rc, dibs_r.ev, dibs_r.oe, {clock}
FROM JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
