-- The ledger: one row per active job or tombstone, with its timer, its place in line and its expiry.
-- Small columns come first, so that they are read without the record behind them.
CREATE TABLE ledger_records (
  id          INTEGER PRIMARY KEY,        -- given by the writer; letters and histories refer to it
  key         TEXT    NOT NULL UNIQUE,
  shard       INTEGER NOT NULL,
  tenant      TEXT    NOT NULL,
  generation  INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  state       TEXT    NOT NULL,
  due_at      INTEGER NOT NULL,           -- the next time, ms
  index_kind  TEXT,                       -- watch, settle or review; NULL where closed
  timer_at    INTEGER,                    -- ms; NULL where closed
  postponed   INTEGER NOT NULL DEFAULT 0, -- since the last transition
  line_at     INTEGER,                    -- ms; NULL unless scheduled
  expires_at  INTEGER,                    -- ms; NULL unless closed
  entries     INTEGER NOT NULL,           -- history entries written so far: the number of the last one
  record      BLOB    NOT NULL
) STRICT;

CREATE INDEX ledger_timers ON ledger_records (shard, index_kind, timer_at) WHERE timer_at IS NOT NULL;
CREATE INDEX ledger_lines ON ledger_records (shard, tenant, line_at) WHERE line_at IS NOT NULL;
CREATE INDEX ledger_expiry ON ledger_records (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE ledger_letters (
  record_id  INTEGER PRIMARY KEY,
  letter     BLOB NOT NULL                -- sealed
) STRICT;

CREATE TABLE ledger_history (
  record_id  INTEGER NOT NULL,
  n          INTEGER NOT NULL,
  entry      BLOB    NOT NULL,
  PRIMARY KEY (record_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_suppressions (
  tenant         TEXT NOT NULL,           -- '' for all
  recipient_ref  TEXT NOT NULL,
  PRIMARY KEY (tenant, recipient_ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_holds (
  kind      TEXT NOT NULL,                -- transport, tenant, shard or fleet
  name      TEXT NOT NULL,
  waits     TEXT NOT NULL,                -- what the jobs wait for
  until_at  INTEGER,                      -- ms; NULL: until somebody resumes
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_beat (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  count  INTEGER NOT NULL,
  at     INTEGER NOT NULL                 -- ms
) STRICT;
