-- Review items stand with the book's tables: settle, evidence and verbs end an item in the transaction that ends its job.
-- What only review's lists need is in review's own migrations.

CREATE TABLE items (
  n                INTEGER PRIMARY KEY,      -- the order in which they were recorded, and that of lists
  id               BLOB    NOT NULL UNIQUE,
  job              INTEGER,                  -- jobs.n; NULL where a quarantined message names none
  job_id           BLOB,
  key              TEXT,
  tenant           TEXT,
  recipient_ref    TEXT,
  recipient_masked TEXT,
  release_at       INTEGER,
  deadline_at      INTEGER,
  attempts         INTEGER NOT NULL,
  last             BLOB,
  reason           TEXT    NOT NULL,
  diagnostic       TEXT    NOT NULL,
  owner            TEXT,
  due_at           INTEGER,
  status           TEXT    NOT NULL CHECK (status IN ('open', 'waiting_approval', 'replaying', 'resolved', 'withdrawn')),
  closed_at        INTEGER,                  -- set exactly where it is resolved or withdrawn
  generation       INTEGER NOT NULL,
  number           INTEGER NOT NULL,         -- counts a job's items from 1
  replay_of        BLOB,
  in_doubt         INTEGER NOT NULL,
  lease_ended_at   INTEGER,
  created_at       INTEGER NOT NULL,
  fingerprint      TEXT UNIQUE,              -- of a quarantined message
  body             BLOB,                     -- of a quarantined message, sealed
  UNIQUE (job, generation, number),
  CHECK ((closed_at IS NOT NULL) = (status IN ('resolved', 'withdrawn')))
) STRICT;
-- At most one item of a job is worked on.
CREATE UNIQUE INDEX items_working ON items (job) WHERE closed_at IS NULL;

CREATE TABLE item_notes (
  n     INTEGER PRIMARY KEY,
  item  INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  actor TEXT    NOT NULL,
  text  TEXT    NOT NULL
) STRICT;
CREATE INDEX item_notes_by_item ON item_notes (item);
