-- Locked in one order by everybody.
WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
SELECT {effect_columns}
FROM dibs_r
CROSS JOIN {schema}dibs_effects AS e
WHERE e.work_id = dibs_r.j ->> '$.w'
ORDER BY e.work_id
