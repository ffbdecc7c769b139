-- A later statement than lock_decide, so that it sees what the former decision
-- committed; and FOR UPDATE, so that a renewal comes before it or after it.
SELECT {run_columns}
FROM {schema}dibs_runs
WHERE id = (SELECT run FROM {schema}dibs_locks WHERE name = :lock)
FOR UPDATE
