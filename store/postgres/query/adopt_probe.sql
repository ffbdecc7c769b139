-- Whether an index may carry the condition; undone afterwards.
CREATE TEMPORARY TABLE {probe} (LIKE {table}) ON COMMIT DROP;
CREATE INDEX ON pg_temp.{probe} ({key}) WHERE ({where});
