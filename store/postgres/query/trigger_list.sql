SELECT {trigger_columns}
FROM {schema}dibs_triggers
WHERE 1 = 1
  AND id = :id  -- if id
  AND job = :job  -- if job
  AND decision = :decision  -- if decision
  AND run_id = :run  -- if run
  AND blocking_run = :blocking  -- if blocking
  AND slot = 'epoch'::timestamptz + :slot::bigint * interval '1 microsecond'  -- if slot
  AND external_id = :external_id  -- if external_id
  AND owns_slot = 'epoch'::timestamptz + :owned_slot::bigint * interval '1 microsecond'  -- if owned_slot
  AND owns_external = :owned_external  -- if owned_external
  AND right(id, length(:suffix::text)) = :suffix  -- if suffix
  AND coalesce(slot, created_at) >= '1970-01-01Z'::timestamptz + :from::bigint * interval '1 microsecond'  -- if from
  AND coalesce(slot, created_at) < '1970-01-01Z'::timestamptz + :to::bigint * interval '1 microsecond'  -- if to
ORDER BY created_at DESC, id DESC
LIMIT :limit
