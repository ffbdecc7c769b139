SELECT count(*) > 0
FROM information_schema.tables
WHERE table_name = :table AND table_schema = coalesce(nullif(:schema, ''), database())
