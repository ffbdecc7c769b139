-- The host's clock is the database's; milliseconds is all that SQLite gives.
SELECT {clock}
