UPDATE {schema}dibs_jobs
SET last_slot = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :last_slot MICROSECOND,
    reference = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :reference MICROSECOND
WHERE name = :name
