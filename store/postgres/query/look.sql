SELECT {row},
       {seen}
FROM {table} AS {w}
WHERE {which}
