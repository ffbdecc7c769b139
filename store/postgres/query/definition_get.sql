SELECT text FROM {schema}dibs_definitions WHERE job = :job AND hash = :hash
