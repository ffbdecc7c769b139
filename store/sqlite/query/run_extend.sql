-- A renewal never shortens what was granted and never reaches past stop_by; a
-- lease that ended and that nobody took may be renewed.
UPDATE {schema}dibs_runs
SET lease_end = max(lease_end, min(coalesce(stop_by, 9223372036854775807), {clock} + :lease_us)),
    heartbeat_at = {clock},
    lease_us = :asked_us
WHERE id = :id AND token = :token AND state = 'running' AND (stop_by IS NULL OR stop_by > {clock})
