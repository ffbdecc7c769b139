-- Unique indexes over whole plain columns, none of which may be NULL.
SELECT CONCAT('[', GROUP_CONCAT(JSON_QUOTE(column_name) ORDER BY seq_in_index), ']')
FROM information_schema.statistics
WHERE table_schema = :schema AND table_name = :name AND non_unique = 0
GROUP BY index_name
HAVING SUM(CASE WHEN nullable = 'YES' OR sub_part IS NOT NULL OR column_name IS NULL THEN 1 ELSE 0 END) = 0
ORDER BY index_name = 'PRIMARY' DESC, index_name
