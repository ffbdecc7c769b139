INSERT INTO {schema}dibs_meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO NOTHING
