-- For this transaction only, so that it also works behind a pooler.
SELECT pg_advisory_xact_lock(hashtextextended(:lock, 0))
