UPDATE {table} AS {w}
SET {renew_set}
FROM json_each(:items) AS dibs_r
WHERE {key_match}
  AND {proof}
RETURNING {key_returned}, {renewed_target}
