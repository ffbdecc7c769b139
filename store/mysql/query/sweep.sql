SELECT {key_out}
FROM {table} AS {w}
WHERE {which}
LIMIT :limit
FOR UPDATE SKIP LOCKED
