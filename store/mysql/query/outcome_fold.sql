-- Tokens begin with the run's ID and a slash, so that the primary key serves.
SELECT outcome, count(*)
FROM {schema}dibs_outcomes
WHERE token >= :from AND token < :to AND NOT late
GROUP BY outcome
