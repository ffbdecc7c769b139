-- Whether our tables may be written: privileges are asked for although no row
-- is. Each statement runs by itself.
UPDATE {schema}dibs_meta SET value = value WHERE 1 = 0;
INSERT INTO {schema}dibs_jobs SELECT * FROM {schema}dibs_jobs WHERE 1 = 0;
UPDATE {schema}dibs_jobs SET definition = definition WHERE 1 = 0;
INSERT INTO {schema}dibs_definitions SELECT * FROM {schema}dibs_definitions WHERE 1 = 0;
INSERT INTO {schema}dibs_locks SELECT * FROM {schema}dibs_locks WHERE 1 = 0;
UPDATE {schema}dibs_locks SET run = run WHERE 1 = 0;
INSERT INTO {schema}dibs_triggers SELECT * FROM {schema}dibs_triggers WHERE 1 = 0;
UPDATE {schema}dibs_triggers SET reason = reason WHERE 1 = 0;
INSERT INTO {schema}dibs_runs SELECT * FROM {schema}dibs_runs WHERE 1 = 0;
UPDATE {schema}dibs_runs SET state = state WHERE 1 = 0;
INSERT INTO {schema}dibs_outcomes SELECT * FROM {schema}dibs_outcomes WHERE 1 = 0;
INSERT INTO {schema}dibs_audit SELECT * FROM {schema}dibs_audit WHERE 1 = 0
