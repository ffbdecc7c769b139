SELECT {trigger_columns}
FROM {schema}dibs_triggers
WHERE 1 = 1
  AND id = :id  -- if id
  AND job = :job  -- if job
  AND decision = :decision  -- if decision
  AND run_id = :run  -- if run
  AND blocking_run = :blocking  -- if blocking
  AND slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND  -- if slot
  AND external_id = :external_id  -- if external_id
  AND owns_slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :owned_slot MICROSECOND  -- if owned_slot
  AND owns_external = :owned_external  -- if owned_external
  AND right(id, length(:suffix)) = :suffix  -- if suffix
  AND coalesce(slot, created_at) >= '1970-01-01' + INTERVAL :from MICROSECOND  -- if from
  AND coalesce(slot, created_at) < '1970-01-01' + INTERVAL :to MICROSECOND  -- if to
ORDER BY created_at DESC, id DESC
LIMIT :limit
