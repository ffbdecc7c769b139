-- Never away from a running run: it has to be ended or marked lost first.
UPDATE {schema}dibs_locks AS l
SET l.run = :run, l.fence = l.fence + 1
WHERE l.name = :lock
  AND NOT EXISTS (SELECT 1 FROM {schema}dibs_runs r WHERE r.id = l.run AND r.state = 'running')
