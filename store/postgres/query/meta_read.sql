-- The last row says where the tables really are: the cluster, by the identifier
-- that initdb gave it, and the database in it.
SELECT name, value FROM {schema}dibs_meta
UNION ALL
SELECT 'here', (SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/' || oid
FROM pg_catalog.pg_database WHERE datname = current_database()
