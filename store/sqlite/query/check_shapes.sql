-- How a time column's values are written: how many, and one of them. Two values
-- have one shape when they are of one type and differ in digits alone; integers
-- when they have as many digits.
SELECT min(shape), count(*), min(value)
FROM (
    SELECT typeof({column}) || ':' || CASE typeof({column})
               WHEN 'integer' THEN length({column})
               ELSE replace(replace(replace(replace(replace(replace(replace(replace(replace(CAST({column} AS TEXT),
                   '1', '0'), '2', '0'), '3', '0'), '4', '0'), '5', '0'), '6', '0'), '7', '0'), '8', '0'), '9', '0')
           END AS shape,
           typeof({column}) || ':' || CAST({column} AS TEXT) AS value
    FROM {table}
    WHERE {column} IS NOT NULL
    LIMIT 2000000
)
GROUP BY shape
ORDER BY count(*) DESC, min(value)
LIMIT 100
