-- Nothing is changed when it is known; "found rows" would count that, so the
-- condition is part of the insert.
INSERT INTO {schema}dibs_definitions (job, hash, text, seen_at)
SELECT :name, :hash, :text, {clock} FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM {schema}dibs_definitions WHERE job = :name AND hash = :hash)
