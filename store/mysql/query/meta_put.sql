INSERT INTO {schema}dibs_meta (name, value) VALUES (:name, :value)
ON DUPLICATE KEY UPDATE value = :value
