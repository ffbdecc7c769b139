SELECT {key_out}, {renewed}
FROM JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
STRAIGHT_JOIN {table} AS {w}{by_key} ON {key_match}
WHERE {proof}
