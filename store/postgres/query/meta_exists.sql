SELECT count(*) > 0
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = :table AND n.nspname = coalesce(nullif(:schema::text, ''), current_schema())
