-- Locked in one order by everybody.
SELECT {effect_columns}
FROM JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
STRAIGHT_JOIN {schema}dibs_effects AS e ON e.work_id = CAST(dibs_r.w AS BINARY)
ORDER BY e.work_id
FOR UPDATE
