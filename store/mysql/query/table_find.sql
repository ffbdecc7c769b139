-- match, schema, name, what it is, an engine that cannot be used, whether the
-- session's zone has daylight saving. Other tables follow with match 0, for
-- suggestions.
SELECT CASE WHEN BINARY table_name = BINARY :name OR @@lower_case_table_names <> 0 AND table_name = :name THEN 1 ELSE 0 END,
       table_schema, table_name,
       CASE table_type WHEN 'BASE TABLE' THEN 'table' ELSE LOWER(table_type) END,
       CASE WHEN engine = 'InnoDB' OR engine IS NULL THEN '' ELSE engine END,
       CASE WHEN TIMESTAMPDIFF(SECOND, FROM_UNIXTIME(1767225600), FROM_UNIXTIME(1782864000)) <> 15638400 THEN 1 ELSE 0 END
FROM information_schema.tables
WHERE table_schema = CASE WHEN :schema = '' THEN DATABASE() ELSE :schema END
ORDER BY 1 DESC, table_name
LIMIT 500
