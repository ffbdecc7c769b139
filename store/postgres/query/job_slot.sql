-- The gate only moves forward; whoever moves it decides.
UPDATE {schema}dibs_jobs
SET last_slot = 'epoch'::timestamptz + :slot::bigint * interval '1 microsecond'
WHERE name = :name AND (last_slot IS NULL OR last_slot < 'epoch'::timestamptz + :slot::bigint * interval '1 microsecond')
