-- Whether a column has a default.
SELECT dflt_value IS NOT NULL
FROM pragma_table_xinfo(:name, :schema)
WHERE name = :column COLLATE NOCASE
