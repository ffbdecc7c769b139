-- Unpausing re-anchors the schedule: what passed meanwhile is not caught up.
UPDATE {schema}dibs_jobs
SET paused_until = :until, paused_why = :why, paused_by = :by,
    reference = CASE WHEN :until IS NULL THEN {clock} ELSE reference END
WHERE name = :name
