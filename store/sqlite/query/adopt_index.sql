-- "whole" when the table has an index of that name.
SELECT 'whole'
FROM pragma_index_list(:table, :schema)
WHERE name = :name COLLATE NOCASE
