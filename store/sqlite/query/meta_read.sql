-- The last row says where the tables really are; see the dialect's Identity.
SELECT name, value FROM {schema}dibs_meta
UNION ALL
SELECT 'here', coalesce(file, '') FROM pragma_database_list WHERE name = 'main'
