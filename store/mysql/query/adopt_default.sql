-- Whether a column has a default.
SELECT column_default IS NOT NULL AND column_default <> 'NULL'
FROM information_schema.columns
WHERE table_schema = :schema AND table_name = :name AND column_name = :column
