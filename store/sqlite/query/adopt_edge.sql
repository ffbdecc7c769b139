-- The key that ends the next range of rows to fill.
SELECT {key_text}
FROM {table}
WHERE {after}  -- if after
ORDER BY {order}
LIMIT 1 OFFSET {limit}
