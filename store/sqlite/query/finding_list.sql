SELECT id, run_id, job, work_id, item_key, kind, destination_id, evidence, detail, found_at
FROM {schema}dibs_findings
WHERE 1 = 1
  AND job = :job  -- if job
  AND run_id = :run  -- if run
  AND work_id = :work_id  -- if work_id
  AND kind = :kind  -- if kind
ORDER BY id DESC
LIMIT :limit
