UPDATE {schema}dibs_jobs
SET last_slot = :last_slot,
    reference = :reference
WHERE name = :name
