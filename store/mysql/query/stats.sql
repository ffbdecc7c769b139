SELECT {status_out} AS status, count(*) AS n,
       sum(CASE WHEN {expired} THEN 1 ELSE 0 END) AS expired,
       sum(CASE WHEN {due} THEN 1 ELSE 0 END) AS due,
       min(CASE WHEN {due} THEN {oldest} END) AS oldest,
       {now} AS now
FROM {table} AS {w}
GROUP BY {status_raw}
