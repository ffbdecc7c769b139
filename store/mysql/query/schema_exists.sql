SELECT count(*) > 0 FROM information_schema.schemata WHERE schema_name = coalesce(nullif(:schema, ''), database())
