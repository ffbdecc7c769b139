-- The immediate transaction is the lock.
SELECT 1
