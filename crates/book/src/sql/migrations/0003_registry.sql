-- Which processes work on this book, and in which incarnation each shard of the ledger is.

CREATE TABLE workers (
  id             BLOB    PRIMARY KEY CHECK (length(id) = 16),  -- one run of one process
  roles          TEXT    NOT NULL,                -- their names, with a comma between
  name           TEXT    NOT NULL,
  version        TEXT    NOT NULL,
  reads_form     INTEGER NOT NULL,                -- the newest format that it reads
  started_at     INTEGER NOT NULL,
  beat_at        INTEGER NOT NULL,                -- every 10 s
  stopped_at     INTEGER,                         -- a clean stop
  drain_asked_at INTEGER
) STRICT;
CREATE INDEX workers_beat ON workers (beat_at);

CREATE TABLE shards (
  shard       INTEGER PRIMARY KEY,
  incarnation INTEGER NOT NULL                    -- raised by recovery alone
) STRICT;

-- A worker has reported all that it held of a shard, in an incarnation.
CREATE TABLE reports (
  shard       INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  worker      BLOB    NOT NULL,
  PRIMARY KEY (shard, incarnation, worker)
) STRICT, WITHOUT ROWID;
