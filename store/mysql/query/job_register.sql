-- Only a definition not seen before, or one that was retired, re-anchors the
-- schedule.
INSERT INTO {schema}dibs_jobs (name, definition, registered_at, reference)
VALUES (:name, :hash, {clock}, {clock})
ON DUPLICATE KEY UPDATE
    reference = CASE WHEN :fresh OR retired_at IS NOT NULL THEN {clock} ELSE reference END,
    retired_at = NULL,
    definition = :hash
