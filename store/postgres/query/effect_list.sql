SELECT {effect_columns}
FROM {schema}dibs_effects
WHERE 1 = 1
  AND work_id = :work_id  -- if work_id
  AND job = :job  -- if job
  AND state = 'uncertain'  -- if uncertain
  AND state = 'held'  -- if held
  AND state = :state  -- if state
  AND run_id = :run  -- if run
  AND item_key = :key  -- if key
  AND (lease_end IS NULL OR lease_end <= {clock})  -- if free
  AND intended_at >= '1970-01-01Z'::timestamptz + :from::bigint * interval '1 microsecond'  -- if from
  AND intended_at < '1970-01-01Z'::timestamptz + :to::bigint * interval '1 microsecond'  -- if to
  AND work_id > :after  -- if after
ORDER BY work_id
LIMIT :limit
