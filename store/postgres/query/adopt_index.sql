-- "whole" when the table has an index of that name, "broken" when an interrupted
-- CREATE INDEX CONCURRENTLY left it.
SELECT CASE WHEN i.indisvalid THEN 'whole' ELSE 'broken' END
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND c.relname = :table::text AND x.relname = :name::text
