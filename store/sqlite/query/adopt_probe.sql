-- Whether an index may carry the condition; undone afterwards.
CREATE TEMP TABLE {probe} AS SELECT * FROM {table} LIMIT 0;
CREATE INDEX temp.dibs_probe ON {probe} ({key}) WHERE ({where});
