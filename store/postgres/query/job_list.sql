SELECT {job_columns}
FROM {schema}dibs_jobs
WHERE name = :name  -- if name
ORDER BY name
