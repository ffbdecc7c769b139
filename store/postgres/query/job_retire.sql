-- It stays retired until somebody registers it again.
UPDATE {schema}dibs_jobs
SET retired_at = coalesce(retired_at, {clock})
WHERE name = :name
