-- A renewal never shortens what was granted and never reaches past stop_by; a
-- lease that ended and that nobody took may be renewed.
UPDATE {schema}dibs_runs
SET lease_end = greatest(lease_end, least(stop_by, {clock} + :lease_us::bigint * interval '1 microsecond')),
    heartbeat_at = {clock},
    lease_us = :asked_us::bigint
WHERE id = :id AND token = :token AND state = 'running' AND (stop_by IS NULL OR stop_by > {clock})
