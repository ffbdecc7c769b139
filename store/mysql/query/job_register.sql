-- Only a definition not seen before re-anchors the schedule.
INSERT INTO {schema}dibs_jobs (name, definition, registered_at, reference)
VALUES (:name, :hash, {clock}, {clock})
ON DUPLICATE KEY UPDATE
    reference = CASE WHEN :fresh THEN {clock} ELSE reference END,
    retired_at = NULL,
    definition = :hash
