-- The first statement of every decision: whoever decides about this lock waits
-- here for whoever is deciding now.
INSERT INTO {schema}dibs_locks AS l (name, decisions) VALUES (:lock, 1)
ON CONFLICT (name) DO UPDATE SET decisions = l.decisions + 1
