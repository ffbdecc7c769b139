statement_timestamp()
