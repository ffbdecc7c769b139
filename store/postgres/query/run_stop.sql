-- Renewals end at stop_by; the lease itself is cut so far that one beat can
-- still tell its holder.
UPDATE {schema}dibs_runs
SET stop_by = least(coalesce(stop_by, 'epoch'::timestamptz + :stop_by::bigint * interval '1 microsecond'), 'epoch'::timestamptz + :stop_by::bigint * interval '1 microsecond'),
    lease_end = least(lease_end, 'epoch'::timestamptz + :until::bigint * interval '1 microsecond'),
    reason = :reason
WHERE id = :id AND token = :token AND state = 'running'
