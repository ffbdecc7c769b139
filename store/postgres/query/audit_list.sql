SELECT (extract(epoch FROM at) * 1000000)::bigint, by_whom, what, job, object, before_value, after_value, why
FROM {schema}dibs_audit
ORDER BY id DESC
LIMIT :limit
