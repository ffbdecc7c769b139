-- What a plan selected never changes.
UPDATE {schema}dibs_plans SET state = :state, runs = :runs WHERE id = :id
