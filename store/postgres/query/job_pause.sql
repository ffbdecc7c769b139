-- Unpausing re-anchors the schedule: what passed meanwhile is not caught up.
UPDATE {schema}dibs_jobs
SET paused_until = 'epoch'::timestamptz + :until::bigint * interval '1 microsecond', paused_why = :why,
       paused_by = :by,
    reference = CASE WHEN :until::bigint IS NULL THEN {clock} ELSE reference END
WHERE name = :name
