SELECT o.token, o.item_key, o.outcome
FROM json_to_recordset(:items::text::json) AS dibs_r ({outcome_fields})
JOIN {schema}dibs_outcomes AS o ON o.token = dibs_r.t AND o.item_key = dibs_r.ik AND NOT o.late
