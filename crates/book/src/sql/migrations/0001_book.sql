-- The book: what was accepted, what is planned, what became of it. Times are ms since 1970, UTC; ids are the 16 bytes of a UUID.
-- States: 0 planned, 1 staged, 2 sent, 3 dead_letter, 4 cancelled, 5 suppressed (3 and above: what somebody may look for by state).

CREATE TABLE jobs (
  n                INTEGER PRIMARY KEY,      -- joins letters, histories, verbs and items; never leaves the book
  id               BLOB    NOT NULL UNIQUE,  -- UUIDv7: its order is the order of lists
  key              TEXT    NOT NULL,
  tenant           TEXT    NOT NULL,
  shard            INTEGER NOT NULL,
  date             TEXT    NOT NULL,         -- the business date without its slot
  recipient_ref    TEXT    NOT NULL,
  recipient_masked TEXT    NOT NULL,
  content_revision INTEGER NOT NULL,
  state            INTEGER NOT NULL CHECK (state BETWEEN 0 AND 5),
  generation       INTEGER NOT NULL,
  seen_generation  INTEGER NOT NULL,         -- the highest story seen: generation, incarnation, version
  seen_incarnation INTEGER NOT NULL,
  seen_version     INTEGER NOT NULL,
  ever_staged      INTEGER NOT NULL,
  replays          INTEGER NOT NULL,
  attempts         INTEGER NOT NULL,
  release_at       INTEGER NOT NULL,
  deadline_at      INTEGER NOT NULL,
  facts            BLOB    NOT NULL,         -- form: what never changes after the door
  told             BLOB                      -- form: last outcome, reason, receipt, doubts, pins; NULL until there is any
) STRICT;

-- Planning reads what is due from the front of this one; jobs far ahead cost it nothing.
CREATE INDEX jobs_planned ON jobs (release_at) WHERE state = 0;
-- The auditor walks what the ledger owns.
CREATE INDEX jobs_staged ON jobs (key) WHERE state = 1;
CREATE INDEX jobs_ended_otherwise ON jobs (id) WHERE state >= 3;
CREATE INDEX jobs_by_day ON jobs (date, tenant, state);
CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
CREATE INDEX jobs_by_recipient ON jobs (recipient_ref, id);

-- Keys apart from jobs: a key outlives its job.
CREATE TABLE job_keys (
  key TEXT    NOT NULL PRIMARY KEY,
  n   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sealed letters apart, so that lists and settles don't read them.
CREATE TABLE job_letters (
  n      INTEGER PRIMARY KEY,
  letter BLOB NOT NULL
) STRICT;

CREATE TABLE job_history (
  n       INTEGER PRIMARY KEY,
  entries BLOB NOT NULL                      -- form: at most 64 entries
) STRICT;

-- The door's log: a day's `accepted` is counted here and nowhere else.
CREATE TABLE door_log (
  date   TEXT    NOT NULL,
  tenant TEXT    NOT NULL,
  job    BLOB    NOT NULL,
  at     INTEGER NOT NULL,
  actor  TEXT    NOT NULL,
  PRIMARY KEY (date, tenant, job)
) STRICT, WITHOUT ROWID;

-- Operators' verbs. AUTOINCREMENT: a number is never used again, whatever is deleted.
CREATE TABLE verbs (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,
  job        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  verb       BLOB    NOT NULL,
  actor      TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  at         INTEGER NOT NULL,
  outcome    INTEGER,                        -- NULL open, 0 refused, 1 applied
  closed_at  INTEGER
) STRICT;
CREATE INDEX verbs_open ON verbs (job) WHERE outcome IS NULL;
CREATE INDEX verbs_open_since ON verbs (at) WHERE outcome IS NULL;

CREATE TABLE suppressions (
  tenant           TEXT    NOT NULL,         -- '' for all
  recipient_ref    TEXT    NOT NULL,
  recipient_masked TEXT    NOT NULL,
  reason           TEXT    NOT NULL,
  actor            TEXT    NOT NULL,
  since            INTEGER NOT NULL,
  PRIMARY KEY (recipient_ref, tenant)
) STRICT, WITHOUT ROWID;

CREATE TABLE holds (
  kind       TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  by         TEXT    NOT NULL,
  hold_until INTEGER,
  reason     TEXT    NOT NULL,
  actor      TEXT    NOT NULL,
  since      INTEGER NOT NULL,
  PRIMARY KEY (kind, name, by)
) STRICT, WITHOUT ROWID;

-- The audit trail: each hash covers the entry and the hash before it.
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  actor  TEXT    NOT NULL,
  action TEXT    NOT NULL,
  object TEXT    NOT NULL,
  reason TEXT    NOT NULL,
  detail TEXT    NOT NULL,
  hash   BLOB    NOT NULL
) STRICT;

CREATE TABLE constants (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE beats (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  count INTEGER NOT NULL,
  at    INTEGER NOT NULL
) STRICT;
