UPDATE {schema}dibs_locks SET run = NULL WHERE name = :lock AND run = :run
