-- Indexes by name: their columns, and whether they are unique over whole plain
-- columns, none of which may be NULL.
SELECT index_name,
       CONCAT('[', GROUP_CONCAT(JSON_QUOTE(column_name) ORDER BY seq_in_index), ']'),
       CASE WHEN MAX(non_unique) = 0 AND SUM(CASE WHEN nullable = 'YES' OR sub_part IS NOT NULL THEN 1 ELSE 0 END) = 0
            THEN 1 ELSE 0 END
FROM information_schema.statistics
WHERE table_schema = :schema AND table_name = :name
GROUP BY index_name
HAVING SUM(CASE WHEN column_name IS NULL THEN 1 ELSE 0 END) = 0
ORDER BY index_name = 'PRIMARY' DESC, index_name
