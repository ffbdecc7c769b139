-- match, schema, name, what it is, an engine that cannot be used, whether the
-- session's zone shifts. Other tables follow with match 0, for suggestions.
SELECT name = :name COLLATE NOCASE, schema, name,
       CASE type WHEN 'table' THEN 'table' WHEN 'view' THEN 'view' ELSE type || ' table' END, '', 0
FROM pragma_table_list
WHERE schema = CASE WHEN :schema = '' THEN 'main' ELSE :schema END
ORDER BY 1 DESC, name
LIMIT 500
