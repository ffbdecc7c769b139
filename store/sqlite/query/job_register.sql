-- Only a definition not seen before, or one that was retired, re-anchors the
-- schedule.
INSERT INTO {schema}dibs_jobs (name, definition, registered_at, reference)
VALUES (:name, :hash, {clock}, {clock})
ON CONFLICT (name) DO UPDATE SET
    definition = excluded.definition,
    retired_at = NULL,
    reference = CASE WHEN :fresh OR retired_at IS NOT NULL THEN excluded.reference ELSE dibs_jobs.reference END
