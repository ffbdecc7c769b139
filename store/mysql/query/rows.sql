SELECT {row},
       {seen}
FROM {table} AS {w}
WHERE {which}
ORDER BY {order}
LIMIT :limit
