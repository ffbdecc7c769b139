-- The gate only moves forward; whoever moves it decides.
UPDATE {schema}dibs_jobs
SET last_slot = :slot
WHERE name = :name AND (last_slot IS NULL OR last_slot < :slot)
