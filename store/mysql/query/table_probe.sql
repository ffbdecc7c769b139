SELECT 1
FROM {table} AS {w}
WHERE {where}
LIMIT 0
