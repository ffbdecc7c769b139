-- The candidates are computed exactly once, under any plan: a materialized CTE,
-- locked as it is read. What it read is what was there before.
WITH dibs_p AS MATERIALIZED (
    SELECT {row},
           {pick_raw}
    FROM {table} AS {w}
    WHERE {which}
      AND {mark}  -- if mark
    ORDER BY {order}
    LIMIT :limit::bigint
    FOR NO KEY UPDATE OF {w} SKIP LOCKED
), dibs_u AS (
    UPDATE {table} AS {w}
    SET {claim_set}
    FROM dibs_p
    WHERE {key_join}
    RETURNING dibs_p.*,
              {claimed}
)
SELECT {picked}
FROM dibs_u
ORDER BY {picked_order}
