-- A domain counts as the type behind it. format_type with -1 names the type as
-- a cast needs it, without a length that would cut.
WITH RECURSIVE base AS (
    SELECT a.attnum, a.attname, a.attnotnull, a.attgenerated, a.atttypmod AS typmod, a.atttypid AS typ
    FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema::text AND c.relname = :name::text AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT b.attnum, b.attname, b.attnotnull OR t.typnotnull, b.attgenerated,
           CASE WHEN b.typmod = -1 THEN t.typtypmod ELSE b.typmod END, t.typbasetype
    FROM base b
    JOIN pg_catalog.pg_type t ON t.oid = b.typ AND t.typtype = 'd'
)
SELECT b.attname, t.typname, format_type(b.typ, -1),
       CASE WHEN t.typname IN ('varchar', 'bpchar') AND b.typmod > 4 THEN b.typmod - 4 ELSE 0 END,
       CASE WHEN b.typmod BETWEEN 0 AND 6 THEN b.typmod ELSE 6 END,
       CASE WHEN b.attnotnull THEN 1 ELSE 0 END,
       CASE WHEN b.attgenerated <> '' THEN 1 ELSE 0 END,
       '', '', '',
       CASE WHEN t.typtype = 'e' THEN
           (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder)::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)
       ELSE '' END
FROM base b
JOIN pg_catalog.pg_type t ON t.oid = b.typ AND t.typtype <> 'd'
ORDER BY b.attnum
