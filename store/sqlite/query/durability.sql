SELECT CASE synchronous WHEN 0 THEN 'synchronous is OFF' ELSE 'synchronous is NORMAL' END
       || ': the last commits may be lost when the machine stops; set PRAGMA synchronous = FULL on every connection'
FROM pragma_synchronous
WHERE synchronous < 2
UNION ALL
SELECT 'journal_mode is ' || journal_mode || ', not WAL: a crash can lose commits; set PRAGMA journal_mode = WAL'
FROM pragma_journal_mode
WHERE lower(journal_mode) NOT IN ('wal', 'delete', 'truncate', 'persist')
