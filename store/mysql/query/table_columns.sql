-- MariaDB's JSON is a text with a check: it is told by the check.
SELECT c.column_name,
       CASE WHEN EXISTS (
           SELECT 1
           FROM information_schema.table_constraints t
           JOIN information_schema.check_constraints k
               ON k.constraint_schema = t.constraint_schema AND k.constraint_name = t.constraint_name
           WHERE t.table_schema = :schema AND t.table_name = :name AND t.constraint_type = 'CHECK'
             AND k.check_clause = CONCAT('json_valid(`', c.column_name, '`)'))
       THEN 'json' ELSE c.data_type END,
       c.column_type,
       CASE WHEN c.collation_name IS NOT NULL THEN LEAST(coalesce(c.character_maximum_length, 0), 1000000000) ELSE 0 END,
       coalesce(c.datetime_precision, -1),
       CASE WHEN c.is_nullable = 'NO' THEN 1 ELSE 0 END,
       CASE WHEN coalesce(c.generation_expression, '') <> '' THEN 1 ELSE 0 END,
       CASE WHEN c.extra LIKE '%on update%' THEN 'CURRENT_TIMESTAMP' ELSE '' END,
       c.character_set_name, c.collation_name, ''
FROM information_schema.columns c
WHERE c.table_schema = :schema AND c.table_name = :name
ORDER BY c.ordinal_position
