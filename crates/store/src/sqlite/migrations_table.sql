-- What was applied to this database, by the crates that own its tables.
CREATE TABLE IF NOT EXISTS migrations (
  name       TEXT    NOT NULL PRIMARY KEY,  -- "book/0001_jobs"
  sha256     BLOB    NOT NULL,              -- of the text that was applied
  applied_at INTEGER NOT NULL               -- ms since 1970, by this machine's clock; for people only
) STRICT, WITHOUT ROWID;
