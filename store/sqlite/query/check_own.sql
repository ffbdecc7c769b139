-- Whether our tables may be written: privileges are asked for although no row
-- is. Each statement runs by itself.
UPDATE {schema}dibs_meta SET value = value WHERE 1 = 0;
INSERT INTO {schema}dibs_jobs (name) SELECT name FROM {schema}dibs_jobs WHERE 1 = 0;
UPDATE {schema}dibs_jobs SET definition = definition WHERE 1 = 0;
INSERT INTO {schema}dibs_definitions (text) SELECT text FROM {schema}dibs_definitions WHERE 1 = 0;
INSERT INTO {schema}dibs_locks (name) SELECT name FROM {schema}dibs_locks WHERE 1 = 0;
UPDATE {schema}dibs_locks SET run = run WHERE 1 = 0;
INSERT INTO {schema}dibs_triggers (id) SELECT id FROM {schema}dibs_triggers WHERE 1 = 0;
UPDATE {schema}dibs_triggers SET reason = reason WHERE 1 = 0;
INSERT INTO {schema}dibs_runs (id) SELECT id FROM {schema}dibs_runs WHERE 1 = 0;
UPDATE {schema}dibs_runs SET state = state WHERE 1 = 0;
INSERT INTO {schema}dibs_outcomes (token) SELECT token FROM {schema}dibs_outcomes WHERE 1 = 0;
INSERT INTO {schema}dibs_audit (what) SELECT what FROM {schema}dibs_audit WHERE 1 = 0
