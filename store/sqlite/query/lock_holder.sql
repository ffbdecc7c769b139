-- A later statement than lock_decide, so that it sees what the former decision
-- committed. An immediate transaction already excludes every other writer.
SELECT {run_columns}
FROM {schema}dibs_runs
WHERE id = (SELECT run FROM {schema}dibs_locks WHERE name = :lock)
