-- How a time column's values are written: how many, and one of them. The type
-- leaves no choice but the infinities.
SELECT 'infinite', count(*), coalesce(min({column}::text), '')
FROM {table}
WHERE {column} IS NOT NULL AND NOT isfinite({column})
HAVING count(*) > 0
