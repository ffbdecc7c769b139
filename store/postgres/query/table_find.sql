-- match, schema, name, what it is, an engine that cannot be used, whether the
-- session's zone matters. Other tables follow with match 0, for suggestions.
SELECT CASE WHEN c.relname = :name::text AND (:schema::text <> '' OR pg_table_is_visible(c.oid)) THEN 1 ELSE 0 END,
       n.nspname, c.relname,
       CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view'
                      WHEN 'm' THEN 'materialized view' ELSE 'foreign table' END,
       '', 0
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND CASE WHEN :schema::text = '' THEN n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
           ELSE n.nspname = :schema::text END
ORDER BY 1 DESC, c.relname
LIMIT 500
