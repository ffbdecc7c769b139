-- code, severity, problem, why, fix: what the catalogue says of a table that
-- could change what a claim writes.
SELECT 'trigger', 'note', 'trigger ' || name || ' may run at each update', 'a claim, a renewal and a settle are updates', ''
FROM {catalogue}.sqlite_schema
WHERE type = 'trigger' AND tbl_name = :name COLLATE NOCASE AND sql LIKE '%UPDATE%'
