SELECT {key_out}, {renewed}
FROM json_to_recordset(:items::text::json) AS dibs_r ({fields})
JOIN {table} AS {w} ON {key_match}
WHERE {proof}
