SELECT name || ' is off: ' || CASE name
    WHEN 'synchronous_commit' THEN 'the last commits may be lost when the server stops; set it to on for this database or role'
    ELSE 'a crash of the machine can destroy the database' END
FROM pg_catalog.pg_settings
WHERE name IN ('synchronous_commit', 'fsync', 'full_page_writes') AND setting = 'off'
