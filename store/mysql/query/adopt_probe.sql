-- An index carries no condition here.
SELECT 1
