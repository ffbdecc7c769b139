SELECT o.token, o.item_key, o.outcome
FROM JSON_TABLE(:items, '$[*]' COLUMNS ({outcome_fields})) AS dibs_r
STRAIGHT_JOIN {schema}dibs_outcomes AS o
    ON o.token = CAST(dibs_r.t AS BINARY) AND o.item_key = CAST(dibs_r.ik AS BINARY) AND o.late = 0
