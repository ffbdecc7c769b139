SELECT value FROM {schema}dibs_meta WHERE name = :lock FOR UPDATE
