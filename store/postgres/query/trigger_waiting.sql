SELECT {trigger_columns}
FROM {schema}dibs_triggers
WHERE lock_name = :lock AND decision = 'waiting'
ORDER BY created_at, id
