-- The book: what was accepted, what is planned, what became of it. Times are ms since 1970, UTC; ids are the 16 bytes of a UUIDv7.
-- States: 0 planned, 1 staged, 2 sent, 3 dead_letter, 4 cancelled, 5 suppressed (3 and above: what somebody may look for by state).
-- Text that is compared or sorted is compared by its bytes, as the rest of Curfew does; so order never depends on the server's locale.

-- Keys apart from jobs: a key is unique over all months, and outlives its job.
CREATE TABLE job_keys (
  key   text COLLATE "C" PRIMARY KEY,
  job   bytea    NOT NULL,
  shard smallint NOT NULL
);

-- By month of acceptance, which is the time in the id: a look-up by id reads one partition, a list walks them newest first.
CREATE TABLE jobs (
  id               bytea    NOT NULL PRIMARY KEY CHECK (octet_length(id) = 16),
  key              text     COLLATE "C" NOT NULL,
  tenant           text     COLLATE "C" NOT NULL,
  shard            smallint NOT NULL,
  date             text     COLLATE "C" NOT NULL,  -- the business date without its slot
  recipient_ref    text     COLLATE "C" NOT NULL,
  recipient_masked text     NOT NULL,
  content_revision integer  NOT NULL,
  state            smallint NOT NULL CHECK (state BETWEEN 0 AND 5),
  generation       integer  NOT NULL,
  seen_generation  integer  NOT NULL,              -- the highest story seen: generation, incarnation, version
  seen_incarnation integer  NOT NULL,
  seen_version     bigint   NOT NULL,
  ever_staged      boolean  NOT NULL,
  replays          integer  NOT NULL,
  attempts         integer  NOT NULL,
  release_at       bigint   NOT NULL,
  deadline_at      bigint   NOT NULL,
  staging_by       bytea,                          -- the scheduler that read it for staging; until then others leave it alone
  staging_until    bigint   NOT NULL DEFAULT 0,    -- by the database's clock; nothing but double work rests on it
  facts            bytea    NOT NULL,              -- form: what never changes after the door
  told             bytea                           -- form: last outcome, reason, receipt, doubts, pins; NULL until there is any
) PARTITION BY RANGE (id);

-- Planning reads what is due from the front of this one; jobs far ahead cost it nothing.
CREATE INDEX jobs_planned ON jobs (release_at) WHERE state = 0;
-- The auditor walks what the ledger owns.
CREATE INDEX jobs_staged ON jobs (key) WHERE state = 1;
CREATE INDEX jobs_ended_otherwise ON jobs (id) WHERE state >= 3;
CREATE INDEX jobs_by_day ON jobs (date, tenant, state);
CREATE INDEX jobs_by_tenant ON jobs (tenant, id);
CREATE INDEX jobs_by_recipient ON jobs (recipient_ref, id);

-- Sealed letters apart, so that lists and settles don't read them. Sealed bytes don't compress.
CREATE TABLE job_letters (
  id     bytea NOT NULL PRIMARY KEY,
  letter bytea NOT NULL
) PARTITION BY RANGE (id);
ALTER TABLE job_letters ALTER COLUMN letter SET STORAGE EXTERNAL;

CREATE TABLE job_history (
  id      bytea NOT NULL PRIMARY KEY,
  entries bytea NOT NULL                           -- form: at most 64 entries
) PARTITION BY RANGE (id);

-- What no month was made for: nothing is refused for want of a partition.
CREATE TABLE jobs_rest PARTITION OF jobs DEFAULT;
CREATE TABLE job_letters_rest PARTITION OF job_letters DEFAULT;
CREATE TABLE job_history_rest PARTITION OF job_history DEFAULT;

-- The door's log: a day's `accepted` is counted here and nowhere else.
CREATE TABLE door_log (
  date   text   COLLATE "C" NOT NULL,
  tenant text   COLLATE "C" NOT NULL,
  job    bytea  NOT NULL,
  at     bigint NOT NULL,
  actor  text   NOT NULL,
  PRIMARY KEY (date, tenant, job)
);

-- Operators' verbs. A number is drawn under the lock of the job's row, so that a job's numbers rise with its verbs.
CREATE TABLE verbs (
  number     bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job        bytea    NOT NULL,
  generation integer  NOT NULL,
  verb       bytea    NOT NULL,
  actor      text     NOT NULL,
  reason     text     NOT NULL,
  at         bigint   NOT NULL,
  outcome    smallint,                             -- NULL open, 0 refused, 1 applied
  closed_at  bigint
);
CREATE INDEX verbs_open ON verbs (job, number) WHERE outcome IS NULL;
CREATE INDEX verbs_open_since ON verbs (at, number) WHERE outcome IS NULL;

CREATE TABLE suppressions (
  tenant           text   COLLATE "C" NOT NULL,    -- '' for all
  recipient_ref    text   COLLATE "C" NOT NULL,
  recipient_masked text   NOT NULL,
  reason           text   NOT NULL,
  actor            text   NOT NULL,
  since            bigint NOT NULL,
  PRIMARY KEY (recipient_ref, tenant)
);

CREATE TABLE holds (
  kind       text   COLLATE "C" NOT NULL,
  name       text   COLLATE "C" NOT NULL,
  by         text   COLLATE "C" NOT NULL,
  hold_until bigint,
  reason     text   NOT NULL,
  actor      text   NOT NULL,
  since      bigint NOT NULL,
  PRIMARY KEY (kind, name, by)
);

-- The audit trail: each hash covers the entry and the hash before it. Appended under a lock of its own: one after the other.
CREATE TABLE audit (
  number bigint PRIMARY KEY,
  at     bigint NOT NULL,
  actor  text   NOT NULL,
  action text   NOT NULL,
  object text   NOT NULL,
  reason text   NOT NULL,
  detail text   NOT NULL,
  hash   bytea  NOT NULL
);

CREATE TABLE constants (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE beats (
  id    smallint PRIMARY KEY CHECK (id = 1),
  count bigint   NOT NULL,
  at    bigint   NOT NULL
);
