SELECT {run_columns}
FROM {schema}dibs_runs
WHERE 1 = 1
  AND id = :id  -- if id
  AND job = :job  -- if job
  AND state = :state  -- if state
  AND slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND  -- if slot
  AND right(id, length(:suffix)) = :suffix  -- if suffix
  AND slot IS NOT NULL  -- if slotted
  AND origin <> 'retry'  -- if not_retry
ORDER BY started_at DESC, id DESC
LIMIT :limit
FOR UPDATE  -- if locked
