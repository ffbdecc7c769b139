-- The immediate transaction is the lock. What was there before is read first;
-- claim_write then writes by key.
SELECT {row},
       {claiming}
FROM {table} AS {w}
WHERE {which}
  AND {mark}  -- if mark
ORDER BY {order}
LIMIT :limit
