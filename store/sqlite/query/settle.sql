UPDATE {table} AS {w}
SET {settle_set}
FROM json_each(:items) AS dibs_r
WHERE {key_match}
  AND {proof}
RETURNING {key_returned}
