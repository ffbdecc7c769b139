-- How a time column's values are written: how many, and one of them. The type
-- leaves no choice but the zero date.
SELECT 'zero', COUNT(*), coalesce(CAST(MIN({column}) AS CHAR), '')
FROM {table}
WHERE {column} IS NOT NULL AND YEAR({column}) = 0
HAVING COUNT(*) > 0
