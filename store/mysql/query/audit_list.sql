SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at), by_whom, what, job, object, before_value, after_value, why
FROM {schema}dibs_audit
ORDER BY id DESC
LIMIT :limit
