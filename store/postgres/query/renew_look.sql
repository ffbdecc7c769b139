WITH dibs_r AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:items::text::json) AS dibs_j ({fields})
)
SELECT {key_out}, {renewed}
FROM dibs_r
JOIN {table} AS {w} ON {key_match}
WHERE {proof}
