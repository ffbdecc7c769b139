UPDATE JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
STRAIGHT_JOIN {table} AS {w} ON {key_match}
SET {sweep_set}
