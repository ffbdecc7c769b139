SELECT {row},
       {claimed}
FROM {table} AS {w}
WHERE {which}
ORDER BY {key_order}
