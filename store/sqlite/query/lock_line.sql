-- The time, after the lock and its run are locked, and whoever waits for it; one
-- row with the time alone when nobody does.
SELECT {clock}, {trigger_columns}
FROM (SELECT 1 AS one) once
LEFT JOIN {schema}dibs_triggers ON lock_name = :lock AND decision = 'waiting'
ORDER BY coalesce(waiting_since, created_at), created_at, id
