-- dibs_meta is names and values, so that it never has to be altered: it is
-- read before anything else, by programs of every version, and one of its rows is
-- locked while the other tables are changed.
CREATE TABLE IF NOT EXISTS {schema}dibs_meta (
    name  VARBINARY(64) NOT NULL PRIMARY KEY,
    value VARBINARY(2048) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
