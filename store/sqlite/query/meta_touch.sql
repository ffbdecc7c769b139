-- Changes nothing, and finds one row.
UPDATE {schema}dibs_meta SET value = value WHERE name = 'schema_version'
