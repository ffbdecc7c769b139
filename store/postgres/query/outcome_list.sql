SELECT token, item_key, late, run_id, job, work_id, fence, attempt, outcome, reason,
       receipt_id, evidence, error, took_us, (extract(epoch FROM recorded_at) * 1000000)::bigint
FROM {schema}dibs_outcomes
WHERE 1 = 1
  AND token >= :from AND token < :to  -- if run
  AND job = :job  -- if job
  AND item_key = :key  -- if key
  AND work_id = :work_id  -- if work_id
  AND outcome = :outcome  -- if outcome
ORDER BY recorded_at DESC, token DESC, item_key DESC
LIMIT :limit
