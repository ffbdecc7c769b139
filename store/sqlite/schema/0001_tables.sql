-- oldest_compatible: 1
-- Times are integer microseconds since 1970, UTC. Names, keys and tokens are
-- compared as bytes (the BINARY collation).

CREATE TABLE IF NOT EXISTS dibs_jobs (
    name          TEXT NOT NULL PRIMARY KEY,
    definition    TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    retired_at    INTEGER,
    paused_until  INTEGER,
    paused_why    TEXT,
    paused_by     TEXT,
    last_slot     INTEGER,
    reference     INTEGER
) STRICT;

-- What each definition said, so that history stays readable.
CREATE TABLE IF NOT EXISTS dibs_definitions (
    job     TEXT NOT NULL,
    hash    TEXT NOT NULL,
    text    TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (job, hash)
) STRICT;

-- Lock rows are never deleted: the fence would start over.
CREATE TABLE IF NOT EXISTS dibs_locks (
    name      TEXT NOT NULL PRIMARY KEY,
    run       TEXT,
    fence     INTEGER NOT NULL DEFAULT 0,
    decisions INTEGER NOT NULL DEFAULT 0
) STRICT;

-- owns_slot and owns_external are set only on the row that decided the slot or
-- the caller's own identity; waiting_key only on a waiting row that others fold
-- into.
CREATE TABLE IF NOT EXISTS dibs_triggers (
    id              TEXT NOT NULL PRIMARY KEY,
    job             TEXT NOT NULL,
    lock_name       TEXT NOT NULL,
    origin          TEXT NOT NULL,
    slot            INTEGER,
    owns_slot       INTEGER,
    external_id     TEXT,
    owns_external   TEXT,
    item_key        TEXT,
    decision        TEXT NOT NULL,
    reason          TEXT NOT NULL,
    detail          TEXT,
    run_id          TEXT,
    blocking_run    TEXT,
    blocking_holder TEXT,
    blocking_until  INTEGER,
    covered         TEXT,
    executor        TEXT,
    waiter_until    INTEGER,
    waiting_key     TEXT,
    waiting_since   INTEGER,
    missed          INTEGER NOT NULL DEFAULT 0,
    by_whom         TEXT,
    why             TEXT,
    created_at      INTEGER NOT NULL,
    decided_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS dibs_triggers_slot ON dibs_triggers (job, owns_slot) WHERE owns_slot IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS dibs_triggers_external ON dibs_triggers (job, owns_external) WHERE owns_external IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS dibs_triggers_waiting_key ON dibs_triggers (waiting_key) WHERE waiting_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS dibs_triggers_waiting ON dibs_triggers (lock_name, created_at, id) WHERE decision = 'waiting';
CREATE INDEX IF NOT EXISTS dibs_triggers_job ON dibs_triggers (job, created_at);
CREATE INDEX IF NOT EXISTS dibs_triggers_created ON dibs_triggers (created_at);
CREATE INDEX IF NOT EXISTS dibs_triggers_blocking ON dibs_triggers (blocking_run) WHERE blocking_run IS NOT NULL;

CREATE TABLE IF NOT EXISTS dibs_runs (
    id           TEXT NOT NULL PRIMARY KEY,
    job          TEXT NOT NULL,
    lock_name    TEXT,
    trigger_id   TEXT NOT NULL,
    origin       TEXT NOT NULL,
    kind         TEXT NOT NULL,
    state        TEXT NOT NULL,
    reason       TEXT,
    slot         INTEGER,
    item_key     TEXT,
    definition   TEXT,
    holder       TEXT NOT NULL,
    token        TEXT NOT NULL,
    lease_end    INTEGER NOT NULL,
    lease_us     INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL,
    stop_by      INTEGER,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    selected     INTEGER NOT NULL DEFAULT 0,
    completed    INTEGER NOT NULL DEFAULT 0,
    already_done INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    rejected     INTEGER NOT NULL DEFAULT 0,
    uncertain    INTEGER NOT NULL DEFAULT 0,
    held         INTEGER NOT NULL DEFAULT 0,
    released     INTEGER NOT NULL DEFAULT 0,
    lost         INTEGER NOT NULL DEFAULT 0,
    remaining    INTEGER NOT NULL DEFAULT 0,
    position     TEXT,
    exit_code    INTEGER,
    error        TEXT,
    output       TEXT,
    recovers     TEXT,
    previous     TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_runs_running ON dibs_runs (lease_end) WHERE state = 'running';
CREATE INDEX IF NOT EXISTS dibs_runs_job ON dibs_runs (job, started_at);
CREATE INDEX IF NOT EXISTS dibs_runs_started ON dibs_runs (started_at);
CREATE INDEX IF NOT EXISTS dibs_runs_slot ON dibs_runs (job, slot) WHERE slot IS NOT NULL;

-- Work that is not in a table of the user's own.
CREATE TABLE IF NOT EXISTS dibs_items (
    work_id         TEXT NOT NULL PRIMARY KEY,
    job             TEXT NOT NULL,
    item_key        TEXT NOT NULL,
    payload         TEXT,
    enumerated_by   TEXT,
    enumerated_at   INTEGER NOT NULL,
    status          TEXT NOT NULL,
    started_at      INTEGER,
    claimable_at    INTEGER,
    claim_token     TEXT,
    fence           INTEGER NOT NULL DEFAULT 0,
    attempts        INTEGER NOT NULL DEFAULT 0,
    expirations     INTEGER NOT NULL DEFAULT 0,
    cycle           INTEGER,
    last_success_at INTEGER,
    last_error      TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_items_due ON dibs_items (job, claimable_at, work_id) WHERE claimable_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS dibs_items_key ON dibs_items (job, item_key);

-- The proof of a settle. A token begins with its run's ID, so that the primary
-- key also serves look-ups by run.
CREATE TABLE IF NOT EXISTS dibs_outcomes (
    token       TEXT NOT NULL,
    item_key    TEXT NOT NULL,
    late        INTEGER NOT NULL,
    run_id      TEXT NOT NULL,
    job         TEXT NOT NULL,
    work_id     TEXT NOT NULL,
    fence       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    outcome     TEXT NOT NULL,
    reason      TEXT,
    receipt_id  TEXT,
    evidence    TEXT,
    error       TEXT,
    took_us     INTEGER NOT NULL DEFAULT 0,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (token, item_key, late)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dibs_outcomes_work ON dibs_outcomes (work_id);
CREATE INDEX IF NOT EXISTS dibs_outcomes_recorded ON dibs_outcomes (recorded_at);

-- A change at the destination; claimable like a row.
CREATE TABLE IF NOT EXISTS dibs_effects (
    work_id        TEXT NOT NULL PRIMARY KEY,
    job            TEXT NOT NULL,
    item_key       TEXT NOT NULL,
    cycle          INTEGER,
    run_id         TEXT NOT NULL,
    state          TEXT NOT NULL,
    reason         TEXT,
    claim_token    TEXT,
    fence          INTEGER NOT NULL DEFAULT 0,
    lease_end      INTEGER,
    request_hash   TEXT,
    destination_id TEXT,
    evidence       TEXT,
    error          TEXT,
    lookups        INTEGER NOT NULL DEFAULT 0,
    look_at        INTEGER,
    sent_until     INTEGER,
    intended_at    INTEGER NOT NULL,
    settled_at     INTEGER,
    updated_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_effects_state ON dibs_effects (job, state, work_id)
    WHERE state = 'uncertain' OR state = 'held';
CREATE INDEX IF NOT EXISTS dibs_effects_key ON dibs_effects (job, item_key);
CREATE INDEX IF NOT EXISTS dibs_effects_lease ON dibs_effects (lease_end) WHERE state = 'intended';

CREATE TABLE IF NOT EXISTS dibs_findings (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id         TEXT NOT NULL,
    job            TEXT NOT NULL,
    work_id        TEXT NOT NULL,
    item_key       TEXT NOT NULL,
    kind           TEXT NOT NULL,
    destination_id TEXT,
    evidence       TEXT,
    detail         TEXT,
    found_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_findings_job ON dibs_findings (job, found_at);
CREATE INDEX IF NOT EXISTS dibs_findings_work ON dibs_findings (work_id);

-- What a recovery means to do, before it does it.
CREATE TABLE IF NOT EXISTS dibs_plans (
    id         TEXT NOT NULL PRIMARY KEY,
    job        TEXT NOT NULL,
    span       TEXT NOT NULL,
    state      TEXT NOT NULL,
    most       INTEGER NOT NULL,
    items      TEXT NOT NULL,
    runs       TEXT NOT NULL,
    by_whom    TEXT,
    why        TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_plans_job ON dibs_plans (job, created_at);

-- Counters as deltas: inserted by everybody, folded by the sweep, no hot row.
CREATE TABLE IF NOT EXISTS dibs_tallies (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    metric TEXT NOT NULL,
    job    TEXT NOT NULL,
    labels TEXT NOT NULL,
    amount INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_tallies_metric ON dibs_tallies (metric, job, labels);

-- Every human act.
CREATE TABLE IF NOT EXISTS dibs_audit (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    at           INTEGER NOT NULL,
    by_whom      TEXT NOT NULL,
    what         TEXT NOT NULL,
    job          TEXT,
    object       TEXT,
    before_value TEXT,
    after_value  TEXT,
    why          TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS dibs_audit_at ON dibs_audit (at);
