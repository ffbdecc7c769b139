-- A column of SQLite has neither a length nor a precision that is kept.
SELECT name, type, type, 0, -1, "notnull" OR (pk > 0 AND type = 'INTEGER'), hidden <> 0, '', '', '', ''
FROM pragma_table_xinfo(:name, :schema)
ORDER BY cid
