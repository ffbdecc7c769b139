-- oldest_compatible: 1
-- Names, keys and tokens are compared as bytes (collation "C").

CREATE TABLE IF NOT EXISTS {schema}dibs_jobs (
    name          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    definition    TEXT COLLATE "C" NOT NULL,
    registered_at TIMESTAMPTZ NOT NULL,
    retired_at    TIMESTAMPTZ,
    paused_until  TIMESTAMPTZ,
    paused_why    TEXT,
    paused_by     TEXT,
    last_slot     TIMESTAMPTZ,
    reference     TIMESTAMPTZ
);

-- What each definition said, so that history stays readable.
CREATE TABLE IF NOT EXISTS {schema}dibs_definitions (
    job     TEXT COLLATE "C" NOT NULL,
    hash    TEXT COLLATE "C" NOT NULL,
    text    TEXT NOT NULL,
    seen_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (job, hash)
);

-- Lock rows are never deleted: the fence would start over.
CREATE TABLE IF NOT EXISTS {schema}dibs_locks (
    name      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    run       TEXT COLLATE "C",
    fence     BIGINT NOT NULL DEFAULT 0,
    decisions BIGINT NOT NULL DEFAULT 0
);

-- owns_slot and owns_external are set only on the row that decided the slot or
-- the caller's own identity; waiting_key only on a waiting row that others fold
-- into.
CREATE TABLE IF NOT EXISTS {schema}dibs_triggers (
    id              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    job             TEXT COLLATE "C" NOT NULL,
    lock_name       TEXT COLLATE "C" NOT NULL,
    origin          TEXT COLLATE "C" NOT NULL,
    slot            TIMESTAMPTZ,
    owns_slot       TIMESTAMPTZ,
    external_id     TEXT COLLATE "C",
    owns_external   TEXT COLLATE "C",
    item_key        TEXT COLLATE "C",
    decision        TEXT COLLATE "C" NOT NULL,
    reason          TEXT COLLATE "C" NOT NULL,
    detail          TEXT,
    run_id          TEXT COLLATE "C",
    blocking_run    TEXT COLLATE "C",
    blocking_holder TEXT COLLATE "C",
    blocking_until  TIMESTAMPTZ,
    covered         TEXT,
    executor        TEXT COLLATE "C",
    waiter_until    TIMESTAMPTZ,
    waiting_key     TEXT COLLATE "C",
    waiting_since   TIMESTAMPTZ,
    missed          BIGINT NOT NULL DEFAULT 0,
    by_whom         TEXT,
    why             TEXT,
    created_at      TIMESTAMPTZ NOT NULL,
    decided_at      TIMESTAMPTZ
);
CREATE UNIQUE INDEX IF NOT EXISTS dibs_triggers_slot ON {schema}dibs_triggers (job, owns_slot) WHERE owns_slot IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS dibs_triggers_external ON {schema}dibs_triggers (job, owns_external) WHERE owns_external IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS dibs_triggers_waiting_key ON {schema}dibs_triggers (waiting_key) WHERE waiting_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS dibs_triggers_waiting ON {schema}dibs_triggers (lock_name, created_at, id) WHERE decision = 'waiting';
CREATE INDEX IF NOT EXISTS dibs_triggers_job ON {schema}dibs_triggers (job, created_at);
CREATE INDEX IF NOT EXISTS dibs_triggers_created ON {schema}dibs_triggers (created_at);
CREATE INDEX IF NOT EXISTS dibs_triggers_blocking ON {schema}dibs_triggers (blocking_run) WHERE blocking_run IS NOT NULL;

CREATE TABLE IF NOT EXISTS {schema}dibs_runs (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    job          TEXT COLLATE "C" NOT NULL,
    lock_name    TEXT COLLATE "C",
    trigger_id   TEXT COLLATE "C" NOT NULL,
    origin       TEXT COLLATE "C" NOT NULL,
    kind         TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C",
    slot         TIMESTAMPTZ,
    item_key     TEXT COLLATE "C",
    definition   TEXT COLLATE "C",
    holder       TEXT COLLATE "C" NOT NULL,
    token        TEXT COLLATE "C" NOT NULL,
    lease_end    TIMESTAMPTZ NOT NULL,
    lease_us     BIGINT NOT NULL,
    heartbeat_at TIMESTAMPTZ NOT NULL,
    stop_by      TIMESTAMPTZ,
    started_at   TIMESTAMPTZ NOT NULL,
    ended_at     TIMESTAMPTZ,
    selected     BIGINT NOT NULL DEFAULT 0,
    completed    BIGINT NOT NULL DEFAULT 0,
    already_done BIGINT NOT NULL DEFAULT 0,
    failed       BIGINT NOT NULL DEFAULT 0,
    rejected     BIGINT NOT NULL DEFAULT 0,
    uncertain    BIGINT NOT NULL DEFAULT 0,
    held         BIGINT NOT NULL DEFAULT 0,
    released     BIGINT NOT NULL DEFAULT 0,
    lost         BIGINT NOT NULL DEFAULT 0,
    remaining    BIGINT NOT NULL DEFAULT 0,
    position     TEXT,
    exit_code    INTEGER,
    error        TEXT,
    output       TEXT,
    recovers     TEXT COLLATE "C",
    previous     TEXT COLLATE "C"
);
CREATE INDEX IF NOT EXISTS dibs_runs_running ON {schema}dibs_runs (lease_end) WHERE state = 'running';
CREATE INDEX IF NOT EXISTS dibs_runs_job ON {schema}dibs_runs (job, started_at);
CREATE INDEX IF NOT EXISTS dibs_runs_started ON {schema}dibs_runs (started_at);
CREATE INDEX IF NOT EXISTS dibs_runs_slot ON {schema}dibs_runs (job, slot) WHERE slot IS NOT NULL;

-- Work that is not in a table of the user's own.
CREATE TABLE IF NOT EXISTS {schema}dibs_items (
    work_id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    job             TEXT COLLATE "C" NOT NULL,
    item_key        TEXT COLLATE "C" NOT NULL,
    payload         TEXT,
    enumerated_by   TEXT COLLATE "C",
    enumerated_at   TIMESTAMPTZ NOT NULL,
    status          TEXT COLLATE "C" NOT NULL,
    started_at      TIMESTAMPTZ,
    claimable_at    TIMESTAMPTZ,
    claim_token     TEXT COLLATE "C",
    fence           BIGINT NOT NULL DEFAULT 0,
    attempts        INTEGER NOT NULL DEFAULT 0,
    expirations     INTEGER NOT NULL DEFAULT 0,
    cycle           BIGINT,
    last_success_at TIMESTAMPTZ,
    last_error      TEXT
);
CREATE INDEX IF NOT EXISTS dibs_items_due ON {schema}dibs_items (job, claimable_at, work_id) WHERE claimable_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS dibs_items_key ON {schema}dibs_items (job, item_key);

-- The proof of a settle. A token begins with its run's ID, so that the primary
-- key also serves look-ups by run.
CREATE TABLE IF NOT EXISTS {schema}dibs_outcomes (
    token       TEXT COLLATE "C" NOT NULL,
    item_key    TEXT COLLATE "C" NOT NULL,
    late        BOOLEAN NOT NULL,
    run_id      TEXT COLLATE "C" NOT NULL,
    job         TEXT COLLATE "C" NOT NULL,
    work_id     TEXT COLLATE "C" NOT NULL,
    fence       BIGINT NOT NULL,
    attempt     INTEGER NOT NULL,
    outcome     TEXT COLLATE "C" NOT NULL,
    reason      TEXT COLLATE "C",
    receipt_id  TEXT COLLATE "C",
    evidence    TEXT,
    error       TEXT,
    took_us     BIGINT NOT NULL DEFAULT 0,
    recorded_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (token, item_key, late)
);
CREATE INDEX IF NOT EXISTS dibs_outcomes_work ON {schema}dibs_outcomes (work_id);
CREATE INDEX IF NOT EXISTS dibs_outcomes_recorded ON {schema}dibs_outcomes (recorded_at);

-- A change at the destination; claimable like a row.
CREATE TABLE IF NOT EXISTS {schema}dibs_effects (
    work_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    job            TEXT COLLATE "C" NOT NULL,
    item_key       TEXT COLLATE "C" NOT NULL,
    cycle          BIGINT,
    run_id         TEXT COLLATE "C" NOT NULL,
    state          TEXT COLLATE "C" NOT NULL,
    reason         TEXT COLLATE "C",
    claim_token    TEXT COLLATE "C",
    fence          BIGINT NOT NULL DEFAULT 0,
    lease_end      TIMESTAMPTZ,
    request_hash   TEXT COLLATE "C",
    destination_id TEXT COLLATE "C",
    evidence       TEXT,
    error          TEXT,
    lookups        INTEGER NOT NULL DEFAULT 0,
    look_at        TIMESTAMPTZ,
    sent_until     TIMESTAMPTZ,
    intended_at    TIMESTAMPTZ NOT NULL,
    settled_at     TIMESTAMPTZ,
    updated_at     TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS dibs_effects_state ON {schema}dibs_effects (job, state, work_id)
    WHERE state = 'uncertain' OR state = 'held';
CREATE INDEX IF NOT EXISTS dibs_effects_key ON {schema}dibs_effects (job, item_key);
CREATE INDEX IF NOT EXISTS dibs_effects_lease ON {schema}dibs_effects (lease_end) WHERE state = 'intended';

CREATE TABLE IF NOT EXISTS {schema}dibs_findings (
    id             BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    run_id         TEXT COLLATE "C" NOT NULL,
    job            TEXT COLLATE "C" NOT NULL,
    work_id        TEXT COLLATE "C" NOT NULL,
    item_key       TEXT COLLATE "C" NOT NULL,
    kind           TEXT COLLATE "C" NOT NULL,
    destination_id TEXT COLLATE "C",
    evidence       TEXT,
    detail         TEXT,
    found_at       TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS dibs_findings_job ON {schema}dibs_findings (job, found_at);
CREATE INDEX IF NOT EXISTS dibs_findings_work ON {schema}dibs_findings (work_id);

-- What a recovery means to do, before it does it.
CREATE TABLE IF NOT EXISTS {schema}dibs_plans (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    job        TEXT COLLATE "C" NOT NULL,
    span       TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    most       BIGINT NOT NULL,
    items      TEXT NOT NULL,
    runs       TEXT NOT NULL,
    by_whom    TEXT,
    why        TEXT,
    created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS dibs_plans_job ON {schema}dibs_plans (job, created_at);

-- Counters as deltas: inserted by everybody, folded by the sweep, no hot row.
CREATE TABLE IF NOT EXISTS {schema}dibs_tallies (
    id     BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    metric TEXT COLLATE "C" NOT NULL,
    job    TEXT COLLATE "C" NOT NULL,
    labels TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS dibs_tallies_metric ON {schema}dibs_tallies (metric, job, labels);

-- Every human act.
CREATE TABLE IF NOT EXISTS {schema}dibs_audit (
    id           BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at           TIMESTAMPTZ NOT NULL,
    by_whom      TEXT NOT NULL,
    what         TEXT COLLATE "C" NOT NULL,
    job          TEXT COLLATE "C",
    object       TEXT,
    before_value TEXT,
    after_value  TEXT,
    why          TEXT
);
CREATE INDEX IF NOT EXISTS dibs_audit_at ON {schema}dibs_audit (at);
