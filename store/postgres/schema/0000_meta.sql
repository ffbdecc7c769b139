-- dibs_meta is names and values, so that it never has to be altered: it is
-- read before anything else, by programs of every version.
CREATE TABLE IF NOT EXISTS {schema}dibs_meta (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
