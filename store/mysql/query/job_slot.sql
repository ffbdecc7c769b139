-- The gate only moves forward; whoever moves it decides.
UPDATE {schema}dibs_jobs
SET last_slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND
WHERE name = :name AND (last_slot IS NULL OR last_slot < TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :slot MICROSECOND)
