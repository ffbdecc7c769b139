INSERT INTO {schema}dibs_definitions (job, hash, text, seen_at)
VALUES (:name, :hash, :text, {clock})
ON CONFLICT (job, hash) DO NOTHING
