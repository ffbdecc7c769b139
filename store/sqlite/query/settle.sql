WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
UPDATE {table} AS {w}
SET {settle_set}
FROM dibs_r
WHERE {key_match}
  AND {proof}
RETURNING {key_returned}
