-- The lease of an effect never ends before that of its item's claim.
UPDATE {schema}dibs_effects
SET state = 'uncertain', sent_until = lease_end, look_at = lease_end + :after::bigint * interval '1 microsecond', updated_at = {clock}
WHERE job = :job AND state = 'intended' AND lease_end <= {clock}
