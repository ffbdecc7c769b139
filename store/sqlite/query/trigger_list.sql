SELECT {trigger_columns}
FROM {schema}dibs_triggers
WHERE 1 = 1
  AND id = :id                                  -- if id
  AND job = :job                                -- if job
  AND decision = :decision                      -- if decision
  AND run_id = :run                             -- if run
  AND blocking_run = :blocking                  -- if blocking
  AND slot = :slot                              -- if slot
  AND external_id = :external_id                -- if external_id
  AND owns_slot = :owned_slot                   -- if owned_slot
  AND owns_external = :owned_external           -- if owned_external
  AND substr(id, -length(:suffix)) = :suffix    -- if suffix
  AND coalesce(slot, created_at) >= :from  -- if from
  AND coalesce(slot, created_at) < :to  -- if to
ORDER BY created_at DESC, id DESC
LIMIT :limit
