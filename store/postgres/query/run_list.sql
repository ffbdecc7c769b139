SELECT {run_columns}
FROM {schema}dibs_runs
WHERE 1 = 1
  AND id = :id  -- if id
  AND job = :job  -- if job
  AND state = :state  -- if state
  AND slot = 'epoch'::timestamptz + :slot::bigint * interval '1 microsecond'  -- if slot
  AND right(id, length(:suffix::text)) = :suffix  -- if suffix
  AND slot IS NOT NULL  -- if slotted
  AND origin <> 'retry'  -- if not_retry
ORDER BY started_at DESC, id DESC
LIMIT :limit
FOR UPDATE  -- if locked
