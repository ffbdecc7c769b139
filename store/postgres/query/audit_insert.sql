INSERT INTO {schema}dibs_audit (at, by_whom, what, job, object, before_value, after_value, why)
VALUES ({clock}, :by, :what, :job, :object, :before, :after, :why)
