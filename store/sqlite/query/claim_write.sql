UPDATE {table} AS {w}
SET {claim_write}
FROM json_each(:items) AS dibs_r
WHERE {key_match}
