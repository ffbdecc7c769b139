-- The primary key counts although SQLite lets it hold NULL: claims leave such
-- rows alone. Other unique indexes must be whole and over columns that are
-- never NULL.
SELECT '', json_group_array(name), 1
FROM (SELECT name FROM pragma_table_xinfo(:name, :schema) WHERE pk > 0 ORDER BY pk)
HAVING count(*) > 0
UNION ALL
SELECT '', columns, 1
FROM (
    SELECT l.name AS index_name,
           (SELECT json_group_array(i.name) FROM (SELECT name FROM pragma_index_info(l.name, :schema) ORDER BY seqno) AS i) AS columns,
           (SELECT count(*)
            FROM pragma_index_info(l.name, :schema) AS i
            LEFT JOIN pragma_table_xinfo(:name, :schema) AS c ON c.name = i.name
            WHERE i.name IS NULL OR NOT (c."notnull" OR c.pk > 0)) AS doubtful
    FROM pragma_index_list(:name, :schema) AS l
    WHERE l."unique" = 1 AND l.partial = 0 AND l.origin <> 'pk'
)
WHERE doubtful = 0
