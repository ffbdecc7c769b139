INSERT INTO {schema}dibs_plans (id, job, span, state, most, items, runs, by_whom, why, created_at)
VALUES (:id, :job, :span, :state, :most, :items, :runs, :by, :why, {clock})
