-- A row that somebody else has locked is left out, never waited for.
WITH dibs_r AS MATERIALIZED (
    SELECT * FROM json_to_recordset(:items::text::json) AS dibs_j ({fields})
), dibs_p AS MATERIALIZED (
    SELECT {key_raw}
    FROM dibs_r
    JOIN {table} AS {w} ON {key_match}
    WHERE {proof}
    ORDER BY {key_order}
    FOR NO KEY UPDATE OF {w} SKIP LOCKED
)
UPDATE {table} AS {w}
SET {renew_set}
FROM dibs_p
WHERE {key_join}
RETURNING {key_out}, {renewed}
