SELECT {trigger_columns}
FROM {schema}dibs_triggers
WHERE lock_name = :lock AND decision = 'waiting'
ORDER BY coalesce(waiting_since, created_at), created_at, id
