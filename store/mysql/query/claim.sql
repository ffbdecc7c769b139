-- No UPDATE can return rows here: lock and read first, then claim_write by key.
-- Rows that others have locked are passed over.
SELECT {row},
       {claiming}
FROM {table} AS {w}{by}
WHERE {which}
  AND {mark}  -- if mark
ORDER BY {order}
LIMIT :limit
FOR UPDATE SKIP LOCKED
