-- Whether a column has a default.
SELECT a.atthasdef
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND c.relname = :name::text AND a.attname = :column::text AND NOT a.attisdropped
