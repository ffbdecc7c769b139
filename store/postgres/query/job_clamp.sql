UPDATE {schema}dibs_jobs
SET last_slot = 'epoch'::timestamptz + :last_slot::bigint * interval '1 microsecond',
    reference = 'epoch'::timestamptz + :reference::bigint * interval '1 microsecond'
WHERE name = :name
