-- Renewals end at stop_by; the lease itself is cut so far that one beat can
-- still tell its holder.
UPDATE {schema}dibs_runs
SET stop_by = min(coalesce(stop_by, :stop_by), :stop_by),
    lease_end = min(lease_end, :until),
    reason = :reason
WHERE id = :id AND token = :token AND state = 'running'
