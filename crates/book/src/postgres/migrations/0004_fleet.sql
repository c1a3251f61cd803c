-- Who works in the fleet, and in which incarnation each shard of the ledger is.

CREATE TABLE workers (
  id         bytea  PRIMARY KEY CHECK (octet_length(id) = 16),  -- one run of one process
  role       text   NOT NULL,
  name       text   NOT NULL,
  reads_form integer NOT NULL,                     -- the newest format that it reads
  started_at bigint NOT NULL,
  beat_at    bigint NOT NULL,                      -- every 30 s
  stopped_at bigint                                -- a clean stop
);
CREATE INDEX workers_alive ON workers (beat_at) WHERE stopped_at IS NULL;

CREATE TABLE shards (
  shard       smallint PRIMARY KEY,
  incarnation integer  NOT NULL                    -- raised by recovery alone
);
