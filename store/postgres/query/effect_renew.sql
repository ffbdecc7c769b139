-- Never shorter than it was, never past the time that the run has to stop by.
UPDATE {schema}dibs_effects AS e
SET lease_end = greatest(e.lease_end, least({clock} + :lease::bigint * interval '1 microsecond', '1970-01-01Z'::timestamptz + :until::bigint * interval '1 microsecond'))
FROM json_to_recordset(:items::text::json) AS dibs_r ({fields})
WHERE e.work_id = dibs_r.w
  AND e.claim_token = dibs_r.t
  AND e.fence = dibs_r.f::bigint
  AND e.lease_end IS NOT NULL
