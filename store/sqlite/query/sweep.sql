UPDATE {table} AS {w}
SET {sweep_set}
WHERE {which}
RETURNING {key_returned}
