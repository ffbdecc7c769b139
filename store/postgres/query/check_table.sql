-- code, severity, problem, why, fix: what the catalogue says of a table that
-- could change or hide what a claim writes. Policies hide nothing when one that
-- is always true applies to reading and one to writing, and none restricts.
SELECT 'row_security',
       CASE WHEN p.open_read AND p.open_write AND NOT p.restrictive THEN 'note' ELSE 'error' END,
       'row security applies to role ' || current_user,
       CASE WHEN p.open_read AND p.open_write AND NOT p.restrictive THEN 'its policies let every row through now'
            ELSE 'rows that it hides are never claimed, renewed or settled, and nobody is told' END,
       'let the role that runs the jobs bypass it (ALTER ROLE … BYPASSRLS), or give it a policy USING (true) for SELECT and UPDATE'
FROM (
    SELECT c.oid,
           coalesce(bool_or(q.polpermissive AND q.polcmd IN ('r', '*') AND q.condition = 'true'), false) AS open_read,
           coalesce(bool_or(q.polpermissive AND q.polcmd IN ('w', '*') AND q.condition = 'true'), false) AS open_write,
           coalesce(bool_or(NOT q.polpermissive AND q.condition IS DISTINCT FROM 'true'), false) AS restrictive
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN (
        SELECT polrelid, polpermissive, polcmd, pg_catalog.pg_get_expr(polqual, polrelid) AS condition
        FROM pg_catalog.pg_policy
        WHERE EXISTS (SELECT 1 FROM unnest(polroles) AS r(id) WHERE r.id = 0 OR pg_catalog.pg_has_role(r.id, 'USAGE'))
          AND polcmd IN ('r', 'w', '*')
    ) AS q ON q.polrelid = c.oid
    WHERE n.nspname = :schema::text AND c.relname = :name::text
    GROUP BY c.oid
) AS p
WHERE pg_catalog.row_security_active(p.oid)
UNION ALL
SELECT 'trigger', 'note', 'trigger ' || t.tgname || ' runs ' ||
       CASE WHEN t.tgtype & 2 <> 0 THEN 'before' ELSE 'after' END || ' each update', 'a claim, a renewal and a settle are updates', ''
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND c.relname = :name::text
  AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 16 <> 0
UNION ALL
SELECT 'rule', 'error', 'rule ' || r.rulename || ' rewrites updates', 'what a claim writes is then something else', 'drop the rule, or use a trigger'
FROM pg_catalog.pg_rewrite r
JOIN pg_catalog.pg_class c ON c.oid = r.ev_class
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND c.relname = :name::text AND r.ev_type = '2'
UNION ALL
SELECT 'unlogged', 'error', 'the table is ' || CASE c.relpersistence WHEN 'u' THEN 'unlogged' ELSE 'temporary' END,
       'a crash empties it, and fences start again', 'ALTER TABLE … SET LOGGED'
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = :schema::text AND c.relname = :name::text AND c.relpersistence <> 'p'
