-- Only a definition not seen before re-anchors the schedule.
INSERT INTO {schema}dibs_jobs (name, definition, registered_at, reference)
VALUES (:name, :hash, {clock}, {clock})
ON CONFLICT (name) DO UPDATE SET
    definition = excluded.definition,
    retired_at = NULL,
    reference = CASE WHEN :fresh::boolean THEN excluded.reference ELSE dibs_jobs.reference END
