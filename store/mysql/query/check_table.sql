-- code, severity, problem, why, fix: what the catalogue says of a table that
-- could change what a claim writes.
SELECT 'trigger', 'note', CONCAT('trigger ', trigger_name, ' runs ', LOWER(action_timing), ' each update'),
       'a claim, a renewal and a settle are updates', ''
FROM information_schema.triggers
WHERE event_object_schema = :schema AND event_object_table = :name AND event_manipulation = 'UPDATE'
