SELECT typeof({column}) || ':' || CAST({column} AS TEXT)
FROM {table}
WHERE {column} IS NOT NULL
LIMIT 200
