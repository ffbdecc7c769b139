-- Not the start of the transaction: locks may have been waited for since.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
