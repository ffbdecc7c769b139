-- Never shorter than it was, never past the time that the run has to stop by.
WITH dibs_r AS MATERIALIZED (SELECT jsonb(value) AS j FROM json_each(:items))
UPDATE {schema}dibs_effects AS e
SET lease_end = max(e.lease_end, min({clock} + :lease, :until))
FROM dibs_r
WHERE e.work_id = dibs_r.j ->> '$.w'
  AND e.claim_token = dibs_r.j ->> '$.t'
  AND e.fence = CAST(dibs_r.j ->> '$.f' AS INTEGER)
  AND e.lease_end IS NOT NULL
