-- code, severity, problem, why, fix; what is ok is a fact for people.
SELECT 'version',
       CASE WHEN minor < 42 THEN 'error' ELSE 'ok' END,
       'SQLite ' || sqlite_version() || CASE WHEN minor < 42 THEN ' is older than 3.42' ELSE '' END,
       CASE WHEN minor < 42 THEN 'it knows no fractions of seconds' ELSE '' END,
       CASE WHEN minor < 42 THEN 'use a driver with SQLite 3.42 or later' ELSE '' END
FROM (SELECT CAST(substr(sqlite_version(), 3) AS INTEGER) AS minor)
