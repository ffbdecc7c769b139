-- Renewals end at stop_by; the lease itself is cut so far that one beat can
-- still tell its holder.
UPDATE {schema}dibs_runs
SET stop_by = least(coalesce(stop_by, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :stop_by MICROSECOND), TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :stop_by MICROSECOND),
    lease_end = least(lease_end, TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :until MICROSECOND),
    reason = :reason
WHERE id = :id AND token = :token AND state = 'running'
