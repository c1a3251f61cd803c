-- The registry of processes, as they enrol themselves; and who has reported to a recovery.

ALTER TABLE workers ALTER COLUMN role SET DEFAULT '';  -- `roles` says it; a later release drops `role`
ALTER TABLE workers ADD COLUMN roles          text[] NOT NULL DEFAULT '{}';
ALTER TABLE workers ADD COLUMN version        text   NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN drain_asked_at bigint;
CREATE INDEX workers_beat ON workers (beat_at);

-- A row for every shard there may be: a transaction that rests on an incarnation locks it, and a missing row can't be locked.
INSERT INTO shards (shard, incarnation) SELECT n, 0 FROM generate_series(0, 63) AS n ON CONFLICT (shard) DO NOTHING;

-- A worker has reported all that it held of a shard, in an incarnation.
CREATE TABLE reports (
  shard       smallint NOT NULL,
  incarnation integer  NOT NULL,
  worker      bytea    NOT NULL CHECK (octet_length(worker) = 16),
  PRIMARY KEY (shard, incarnation, worker)
);
