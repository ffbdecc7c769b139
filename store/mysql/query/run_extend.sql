-- A renewal never shortens what was granted and never reaches past stop_by; a
-- lease that ended and that nobody took may be renewed.
UPDATE {schema}dibs_runs
SET lease_end = greatest(lease_end, least(
        coalesce(stop_by, TIMESTAMP '9999-12-31 00:00:00'), {clock} + INTERVAL :lease_us MICROSECOND)),
    heartbeat_at = {clock},
    lease_us = :asked_us
WHERE id = :id AND token = :token AND state = 'running' AND (stop_by IS NULL OR stop_by > {clock})
