-- "whole" when the table has an index of that name.
SELECT DISTINCT 'whole'
FROM information_schema.statistics
WHERE table_schema = :schema AND table_name = :table AND index_name = :name
