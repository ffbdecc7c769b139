WITH dibs_p AS MATERIALIZED (
    SELECT {key_raw}
    FROM {table} AS {w}
    WHERE {which}
    LIMIT :limit::bigint
    FOR NO KEY UPDATE OF {w} SKIP LOCKED
)
UPDATE {table} AS {w}
SET {sweep_set}
FROM dibs_p
WHERE {key_join}
RETURNING {key_out}
