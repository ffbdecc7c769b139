CREATE TABLE account_config (
    account_id   TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    external_ref TEXT NOT NULL,
    enabled      INTEGER NOT NULL
)
