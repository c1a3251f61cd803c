-- Schedules, the slots planned of them, and which jobs were made of which slot.

CREATE TABLE schedules (
  n             INTEGER PRIMARY KEY,
  tenant        TEXT    NOT NULL,
  name          TEXT    NOT NULL,            -- for good: a deleted one stays, so that no slot is made twice under its name
  revision      INTEGER NOT NULL,            -- rises with each change
  phase         INTEGER NOT NULL CHECK (phase BETWEEN 0 AND 2),  -- 0 active, 1 paused, 2 deleted
  cursor        INTEGER NOT NULL,            -- every slot up to this ms is planned
  in_force_from INTEGER NOT NULL,            -- nothing up to this ms is sent under what stands now
  resumed       INTEGER NOT NULL,            -- whether that is because it was resumed; else it was made or edited then
  definition    BLOB    NOT NULL,            -- form: rule and settings
  recipients    INTEGER NOT NULL,
  private       BLOB    NOT NULL,            -- recipients and content, sealed
  fingerprint   TEXT    NOT NULL,            -- keyed hash of them
  open_slot     TEXT,                        -- the slot that is being made
  open_made     INTEGER,                     -- how many of its recipients have been gone through
  next_scan     INTEGER,                     -- NULL: never
  trouble       TEXT,                        -- what kept it from being planned
  changed_at    INTEGER NOT NULL,
  changed_by    TEXT    NOT NULL,
  UNIQUE (tenant, name)
) STRICT;
CREATE INDEX schedules_due ON schedules (next_scan) WHERE next_scan IS NOT NULL;

CREATE TABLE slots (
  n           INTEGER PRIMARY KEY,
  schedule    INTEGER NOT NULL,
  slot        TEXT    NOT NULL,              -- the last part of its jobs' keys
  date        TEXT    NOT NULL,              -- the business date
  at          INTEGER NOT NULL,              -- where it stands among the others
  release_at  INTEGER,
  deadline_at INTEGER,
  state       INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),  -- 0 open, 1 made, 2 skipped, 3 taken back
  why         TEXT,                          -- of 2 and 3
  revision    INTEGER NOT NULL,              -- the schedule's, as it was planned
  expected    INTEGER NOT NULL,              -- recipients
  UNIQUE (schedule, slot)
) STRICT;
CREATE INDEX slots_by_date ON slots (schedule, date);
CREATE INDEX slots_by_time ON slots (schedule, at);

CREATE TABLE slot_jobs (
  job       INTEGER PRIMARY KEY,             -- jobs.n
  slot      INTEGER NOT NULL,                -- slots.n
  withdrawn INTEGER NOT NULL                 -- taken back before anybody could send it: its key is free for its slot's next job
) STRICT;
CREATE INDEX slot_jobs_by_slot ON slot_jobs (slot, withdrawn);
