SELECT id, job, span, state, most, items, runs, by_whom, why, created_at
FROM {schema}dibs_plans
WHERE job = :job
  AND span = :span
ORDER BY created_at DESC, id DESC
LIMIT 1
