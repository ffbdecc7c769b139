-- code, severity, problem, why, fix; what is ok is a fact for people.
SELECT 'version',
       CASE WHEN s.n < s.least THEN 'error' ELSE 'ok' END,
       CONCAT(s.product, ' ', s.v, CASE WHEN s.n < s.least THEN ' is too old' ELSE '' END),
       CASE WHEN s.n < s.least THEN 'its SQL lacks what a claim is made of' ELSE '' END,
       CASE WHEN s.n < s.least THEN 'use MariaDB 10.6 or MySQL 8.0.16, or later' ELSE '' END
FROM (
    SELECT SUBSTRING_INDEX(VERSION(), '-', 1) AS v,
           CASE WHEN VERSION() LIKE '%MariaDB%' THEN 'MariaDB' ELSE 'MySQL' END AS product,
           CASE WHEN VERSION() LIKE '%MariaDB%' THEN 100600 ELSE 80016 END AS least,
           SUBSTRING_INDEX(VERSION(), '.', 1) * 10000
             + SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '.', 2), '.', -1) * 100
             + SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '-', 1), '.', 3), '.', -1) AS n
) AS s
UNION ALL
SELECT 'session_zone', 'ok',
       CONCAT('session zone ', CASE @@SESSION.time_zone WHEN 'SYSTEM' THEN @@GLOBAL.system_time_zone ELSE @@SESSION.time_zone END,
              '; all times are UTC whatever it is'), '', ''
UNION ALL
SELECT 'read_only', 'error', 'the server is read-only', 'it is a replica, or was closed for writing', 'connect to the primary'
FROM DUAL WHERE @@GLOBAL.read_only <> 0
UNION ALL
SELECT 'binlog', 'error', 'the binary log has the format STATEMENT',
       'it refuses the transactions that claims need (READ COMMITTED)', 'set binlog_format = ROW or MIXED'
FROM DUAL WHERE @@GLOBAL.log_bin <> 0 AND @@SESSION.binlog_format = 'STATEMENT'
