WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
UPDATE {table} AS {w}
SET {claim_write}
FROM dibs_r
WHERE {key_match}
