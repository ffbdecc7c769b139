-- Never away from a running run: it has to be ended or marked lost first.
UPDATE {schema}dibs_locks
SET run = :run, fence = fence + 1
WHERE name = :lock
  AND NOT EXISTS (SELECT 1 FROM {schema}dibs_runs r WHERE r.id = dibs_locks.run AND r.state = 'running')
