SELECT o.token, o.item_key, o.outcome
FROM json_each(:items) AS dibs_r
CROSS JOIN {schema}dibs_outcomes AS o
WHERE o.token = dibs_r.value ->> '$.t'
  AND o.item_key = dibs_r.value ->> '$.ik'
  AND o.late = 0
