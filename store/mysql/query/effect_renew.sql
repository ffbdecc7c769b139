-- Never shorter than it was, never past the time that the run has to stop by.
UPDATE JSON_TABLE(:items, '$[*]' COLUMNS ({fields})) AS dibs_r
STRAIGHT_JOIN {schema}dibs_effects AS e ON e.work_id = CAST(dibs_r.w AS BINARY)
SET e.lease_end = greatest(e.lease_end, least({clock} + INTERVAL :lease MICROSECOND, '1970-01-01' + INTERVAL :until MICROSECOND))
WHERE e.claim_token = CAST(dibs_r.t AS BINARY)
  AND e.fence = CAST(dibs_r.f AS SIGNED)
  AND e.lease_end IS NOT NULL
