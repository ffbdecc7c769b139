SELECT {key_out}, {renewed}
FROM json_each(:items) AS dibs_r
CROSS JOIN {table} AS {w}
WHERE {key_match}
  AND {proof}
