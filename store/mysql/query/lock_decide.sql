-- The first statement of every decision: whoever decides about this lock waits
-- here for whoever is deciding now.
INSERT INTO {schema}dibs_locks (name, decisions) VALUES (:lock, 1)
ON DUPLICATE KEY UPDATE decisions = decisions + 1
