SELECT lock_name
FROM {schema}dibs_triggers
WHERE decision = 'waiting'
GROUP BY lock_name
ORDER BY min(created_at), lock_name
LIMIT :limit
