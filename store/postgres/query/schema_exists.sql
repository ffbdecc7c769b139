SELECT count(*) > 0 FROM pg_catalog.pg_namespace WHERE nspname = coalesce(nullif(:schema::text, ''), current_schema())
