-- Locked in one order by everybody.
SELECT {effect_columns}
FROM json_to_recordset(:items::text::json) AS dibs_r ({fields})
JOIN {schema}dibs_effects AS e ON e.work_id = dibs_r.w
ORDER BY e.work_id
FOR UPDATE OF e
