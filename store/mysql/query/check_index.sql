-- The columns of each index, in order; an expression is "".
SELECT CONCAT('[', GROUP_CONCAT(JSON_QUOTE(coalesce(column_name, '')) ORDER BY seq_in_index), ']')
FROM information_schema.statistics
WHERE table_schema = :schema AND table_name = :name
GROUP BY index_name
