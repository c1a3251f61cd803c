-- Schedules, the slots planned of them, and which jobs were made of which slot.

CREATE TABLE schedules (
  n             bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant        text     COLLATE "C" NOT NULL,
  name          text     COLLATE "C" NOT NULL,     -- for good: a deleted one stays, so that no slot is made twice under its name
  revision      bigint   NOT NULL,                 -- rises with each change
  phase         smallint NOT NULL CHECK (phase BETWEEN 0 AND 2),  -- 0 active, 1 paused, 2 deleted
  cursor        bigint   NOT NULL,                 -- every slot up to this ms is planned
  in_force_from bigint   NOT NULL,                 -- nothing up to this ms is sent under what stands now
  resumed       boolean  NOT NULL,                 -- whether that is because it was resumed; else it was made or edited then
  definition    bytea    NOT NULL,                 -- form: rule and settings
  recipients    integer  NOT NULL,
  private       bytea    NOT NULL,                 -- recipients and content, sealed
  fingerprint   text     NOT NULL,                 -- keyed hash of them
  open_slot     text     COLLATE "C",              -- the slot that is being made
  open_made     integer,                           -- how many of its recipients have been gone through
  next_scan     bigint,                            -- NULL: never
  scan_by       bytea,                             -- the scheduler that was given it; until then others leave it alone
  scan_until    bigint   NOT NULL DEFAULT 0,       -- by the database's clock; nothing but double work rests on it
  trouble       text,                              -- what kept it from being planned
  changed_at    bigint   NOT NULL,
  changed_by    text     NOT NULL,
  UNIQUE (tenant, name)
);
ALTER TABLE schedules ALTER COLUMN private SET STORAGE EXTERNAL;  -- sealed bytes don't compress
CREATE INDEX schedules_due ON schedules (next_scan) WHERE next_scan IS NOT NULL;

CREATE TABLE slots (
  n           bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule    bigint   NOT NULL,
  slot        text     COLLATE "C" NOT NULL,       -- the last part of its jobs' keys
  date        text     COLLATE "C" NOT NULL,       -- the business date
  at          bigint   NOT NULL,                   -- where it stands among the others
  release_at  bigint,
  deadline_at bigint,
  state       smallint NOT NULL CHECK (state BETWEEN 0 AND 3),  -- 0 open, 1 made, 2 skipped, 3 taken back
  why         text,                                -- of 2 and 3
  revision    bigint   NOT NULL,                   -- the schedule's, as it was planned
  expected    integer  NOT NULL,                   -- recipients
  UNIQUE (schedule, slot)
);
CREATE INDEX slots_by_date ON slots (schedule, date);
CREATE INDEX slots_by_time ON slots (schedule, at);

-- Not partitioned: a job is found here from its slot, and only then in its month.
CREATE TABLE slot_jobs (
  job       bytea   NOT NULL PRIMARY KEY CHECK (octet_length(job) = 16),
  slot      bigint  NOT NULL,
  withdrawn boolean NOT NULL                       -- taken back before anybody could send it: its key is free for its slot's next job
);
CREATE INDEX slot_jobs_by_slot ON slot_jobs (slot, withdrawn);
