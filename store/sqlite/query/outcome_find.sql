WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
SELECT o.token, o.item_key, o.outcome
FROM dibs_r
CROSS JOIN {schema}dibs_outcomes AS o
WHERE o.token = dibs_r.j ->> '$.t'
  AND o.item_key = dibs_r.j ->> '$.ik'
  AND o.late = 0
