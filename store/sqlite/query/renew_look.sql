WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
SELECT {key_out}, {renewed}
FROM dibs_r
CROSS JOIN {table} AS {w}
WHERE {key_match}
  AND {proof}
