-- Whether columns may be written: privileges are asked for although no row is.
UPDATE {table} AS {w}
SET {set}
WHERE 1 = 0
