-- oldest_compatible: 1
-- Times are UTC. Names, keys and tokens are VARBINARY, compared as bytes; what is
-- too long for them is refused before it gets here, whatever the SQL mode.

CREATE TABLE IF NOT EXISTS {schema}dibs_jobs (
    name          VARBINARY(255) NOT NULL PRIMARY KEY,
    definition    VARBINARY(255) NOT NULL,
    registered_at DATETIME(6) NOT NULL,
    retired_at    DATETIME(6),
    paused_until  DATETIME(6),
    paused_why    MEDIUMTEXT,
    paused_by     MEDIUMTEXT,
    last_slot     DATETIME(6),
    reference     DATETIME(6)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What each definition said, so that history stays readable.
CREATE TABLE IF NOT EXISTS {schema}dibs_definitions (
    job     VARBINARY(255) NOT NULL,
    hash    VARBINARY(255) NOT NULL,
    text    MEDIUMTEXT NOT NULL,
    seen_at DATETIME(6) NOT NULL,
    PRIMARY KEY (job, hash)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Lock rows are never deleted: the fence would start over.
CREATE TABLE IF NOT EXISTS {schema}dibs_locks (
    name      VARBINARY(255) NOT NULL PRIMARY KEY,
    run       VARBINARY(64),
    fence     BIGINT NOT NULL DEFAULT 0,
    decisions BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- owns_slot and owns_external are set only on the row that decided the slot or
-- the caller's own identity; waiting_key only on a waiting row that others fold
-- into.
CREATE TABLE IF NOT EXISTS {schema}dibs_triggers (
    id              VARBINARY(64) NOT NULL PRIMARY KEY,
    job             VARBINARY(255) NOT NULL,
    lock_name       VARBINARY(255) NOT NULL,
    origin          VARBINARY(32) NOT NULL,
    slot            DATETIME(6),
    owns_slot       DATETIME(6),
    external_id     VARBINARY(255),
    owns_external   VARBINARY(255),
    item_key        VARBINARY(1024),
    decision        VARBINARY(32) NOT NULL,
    reason          VARBINARY(64) NOT NULL,
    detail          MEDIUMTEXT,
    run_id          VARBINARY(64),
    blocking_run    VARBINARY(64),
    blocking_holder VARBINARY(1024),
    blocking_until  DATETIME(6),
    covered         MEDIUMTEXT,
    executor        VARBINARY(1024),
    waiter_until    DATETIME(6),
    waiting_key     VARBINARY(255),
    waiting_since   DATETIME(6),
    missed          BIGINT NOT NULL DEFAULT 0,
    by_whom         MEDIUMTEXT,
    why             MEDIUMTEXT,
    created_at      DATETIME(6) NOT NULL,
    decided_at      DATETIME(6),
    UNIQUE KEY dibs_triggers_slot (job, owns_slot),
    UNIQUE KEY dibs_triggers_external (job, owns_external),
    UNIQUE KEY dibs_triggers_waiting_key (waiting_key),
    KEY dibs_triggers_waiting (lock_name, decision, created_at, id),
    KEY dibs_triggers_job (job, created_at),
    KEY dibs_triggers_created (created_at),
    KEY dibs_triggers_blocking (blocking_run)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {schema}dibs_runs (
    id           VARBINARY(64) NOT NULL PRIMARY KEY,
    job          VARBINARY(255) NOT NULL,
    lock_name    VARBINARY(255),
    trigger_id   VARBINARY(64) NOT NULL,
    origin       VARBINARY(32) NOT NULL,
    kind         VARBINARY(32) NOT NULL,
    state        VARBINARY(32) NOT NULL,
    reason       VARBINARY(64),
    slot         DATETIME(6),
    item_key     VARBINARY(1024),
    definition   VARBINARY(255),
    holder       VARBINARY(1024) NOT NULL,
    token        VARBINARY(96) NOT NULL,
    lease_end    DATETIME(6) NOT NULL,
    lease_us     BIGINT NOT NULL,
    heartbeat_at DATETIME(6) NOT NULL,
    stop_by      DATETIME(6),
    started_at   DATETIME(6) NOT NULL,
    ended_at     DATETIME(6),
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
    position     MEDIUMTEXT,
    exit_code    INT,
    error        MEDIUMTEXT,
    output       MEDIUMTEXT,
    recovers     VARBINARY(64),
    previous     VARBINARY(96),
    KEY dibs_runs_running (state, lease_end),
    KEY dibs_runs_job (job, started_at),
    KEY dibs_runs_started (started_at),
    KEY dibs_runs_slot (job, slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Work that is not in a table of the user's own.
CREATE TABLE IF NOT EXISTS {schema}dibs_items (
    work_id         VARBINARY(2048) NOT NULL PRIMARY KEY,
    job             VARBINARY(255) NOT NULL,
    item_key        VARBINARY(1024) NOT NULL,
    payload         MEDIUMTEXT,
    enumerated_by   VARBINARY(64),
    enumerated_at   DATETIME(6) NOT NULL,
    status          VARBINARY(32) NOT NULL,
    started_at      DATETIME(6),
    claimable_at    DATETIME(6),
    claim_token     VARBINARY(96),
    fence           BIGINT NOT NULL DEFAULT 0,
    attempts        INT NOT NULL DEFAULT 0,
    expirations     INT NOT NULL DEFAULT 0,
    cycle           BIGINT,
    last_success_at DATETIME(6),
    last_error      MEDIUMTEXT,
    KEY dibs_items_due (job, claimable_at, work_id),
    KEY dibs_items_key (job, item_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The proof of a settle. A token begins with its run's ID, so that the primary
-- key also serves look-ups by run.
CREATE TABLE IF NOT EXISTS {schema}dibs_outcomes (
    token       VARBINARY(96) NOT NULL,
    item_key    VARBINARY(1024) NOT NULL,
    late        BOOLEAN NOT NULL,
    run_id      VARBINARY(64) NOT NULL,
    job         VARBINARY(255) NOT NULL,
    work_id     VARBINARY(2048) NOT NULL,
    fence       BIGINT NOT NULL,
    attempt     INT NOT NULL,
    outcome     VARBINARY(32) NOT NULL,
    reason      VARBINARY(64),
    receipt_id  VARBINARY(1024),
    evidence    MEDIUMTEXT,
    error       MEDIUMTEXT,
    took_us     BIGINT NOT NULL DEFAULT 0,
    recorded_at DATETIME(6) NOT NULL,
    PRIMARY KEY (token, item_key, late),
    KEY dibs_outcomes_work (work_id),
    KEY dibs_outcomes_recorded (recorded_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- A change at the destination; claimable like a row.
CREATE TABLE IF NOT EXISTS {schema}dibs_effects (
    work_id        VARBINARY(2048) NOT NULL PRIMARY KEY,
    job            VARBINARY(255) NOT NULL,
    item_key       VARBINARY(1024) NOT NULL,
    cycle          BIGINT,
    run_id         VARBINARY(64) NOT NULL,
    state          VARBINARY(32) NOT NULL,
    reason         VARBINARY(64),
    claim_token    VARBINARY(96),
    fence          BIGINT NOT NULL DEFAULT 0,
    lease_end      DATETIME(6),
    request_hash   VARBINARY(128),
    destination_id VARBINARY(1024),
    evidence       MEDIUMTEXT,
    error          MEDIUMTEXT,
    lookups        INT NOT NULL DEFAULT 0,
    look_at        DATETIME(6),
    sent_until     DATETIME(6),
    intended_at    DATETIME(6) NOT NULL,
    settled_at     DATETIME(6),
    updated_at     DATETIME(6) NOT NULL,
    KEY dibs_effects_state (job, state, work_id),
    KEY dibs_effects_key (job, item_key),
    KEY dibs_effects_lease (state, lease_end)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS {schema}dibs_findings (
    id             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    run_id         VARBINARY(64) NOT NULL,
    job            VARBINARY(255) NOT NULL,
    work_id        VARBINARY(2048) NOT NULL,
    item_key       VARBINARY(1024) NOT NULL,
    kind           VARBINARY(32) NOT NULL,
    destination_id VARBINARY(1024),
    evidence       MEDIUMTEXT,
    detail         MEDIUMTEXT,
    found_at       DATETIME(6) NOT NULL,
    KEY dibs_findings_job (job, found_at),
    KEY dibs_findings_work (work_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What a recovery means to do, before it does it.
CREATE TABLE IF NOT EXISTS {schema}dibs_plans (
    id         VARBINARY(64) NOT NULL PRIMARY KEY,
    job        VARBINARY(255) NOT NULL,
    span       VARBINARY(2048) NOT NULL,
    state      VARBINARY(32) NOT NULL,
    most       BIGINT NOT NULL,
    items      LONGTEXT NOT NULL,
    runs       MEDIUMTEXT NOT NULL,
    by_whom    MEDIUMTEXT,
    why        MEDIUMTEXT,
    created_at DATETIME(6) NOT NULL,
    KEY dibs_plans_job (job, created_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Counters as deltas: inserted by everybody, folded by the sweep, no hot row.
CREATE TABLE IF NOT EXISTS {schema}dibs_tallies (
    id     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    metric VARBINARY(128) NOT NULL,
    job    VARBINARY(255) NOT NULL,
    labels VARBINARY(1024) NOT NULL,
    amount BIGINT NOT NULL,
    KEY dibs_tallies_metric (metric, job, labels)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Every human act.
CREATE TABLE IF NOT EXISTS {schema}dibs_audit (
    id           BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at           DATETIME(6) NOT NULL,
    by_whom      MEDIUMTEXT NOT NULL,
    what         VARBINARY(64) NOT NULL,
    job          VARBINARY(255),
    object       MEDIUMTEXT,
    before_value MEDIUMTEXT,
    after_value  MEDIUMTEXT,
    why          MEDIUMTEXT,
    KEY dibs_audit_at (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
