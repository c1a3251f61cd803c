-- Review items stand with the book's tables: settle, evidence and verbs end an item in the transaction that ends its job.
-- What only review's lists need is in review's own migrations.

CREATE TABLE items (
  n                bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order in which they were recorded, and that of lists
  id               bytea   NOT NULL UNIQUE CHECK (octet_length(id) = 16),
  job_id           bytea,                          -- NULL where a quarantined message names none
  key              text    COLLATE "C",
  tenant           text    COLLATE "C",
  recipient_ref    text    COLLATE "C",
  recipient_masked text,
  release_at       bigint,
  deadline_at      bigint,
  attempts         integer NOT NULL,
  last             bytea,
  reason           text    COLLATE "C" NOT NULL,
  diagnostic       text    NOT NULL,
  owner            text,
  due_at           bigint,
  status           text    COLLATE "C" NOT NULL CHECK (status IN ('open', 'waiting_approval', 'replaying', 'resolved', 'withdrawn')),
  closed_at        bigint,                         -- set exactly where it is resolved or withdrawn
  generation       integer NOT NULL,
  number           integer NOT NULL,               -- counts a job's items from 1
  replay_of        bytea,
  in_doubt         boolean NOT NULL,
  lease_ended_at   bigint,
  created_at       bigint  NOT NULL,
  fingerprint      text    COLLATE "C" UNIQUE,     -- of a quarantined message
  body             bytea,                          -- of a quarantined message, sealed
  UNIQUE (job_id, generation, number),
  CHECK ((closed_at IS NOT NULL) = (status IN ('resolved', 'withdrawn')))
);
-- At most one item of a job is worked on.
CREATE UNIQUE INDEX items_working ON items (job_id) WHERE closed_at IS NULL;

CREATE TABLE item_notes (
  n     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  item  bigint NOT NULL,
  at    bigint NOT NULL,
  actor text   NOT NULL,
  text  text   NOT NULL
);
CREATE INDEX item_notes_by_item ON item_notes (item, n);
