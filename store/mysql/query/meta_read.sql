-- The last row says in which database the tables are; the dialect's Identity adds
-- the server.
SELECT name, value FROM {schema}dibs_meta
UNION ALL
SELECT 'here', coalesce(nullif(:schema, ''), database())
