-- Unpausing re-anchors the schedule: what passed meanwhile is not caught up.
UPDATE {schema}dibs_jobs
SET paused_until = TIMESTAMP '1970-01-01 00:00:00' + INTERVAL :until MICROSECOND, paused_why = :why, paused_by = :by,
    reference = CASE WHEN :until IS NULL THEN {clock} ELSE reference END
WHERE name = :name
