CREATE TABLE IF NOT EXISTS migrations (
  name       text COLLATE "C" PRIMARY KEY,
  sha256     bytea       NOT NULL,  -- of the text, so that an edited one is noticed
  applied_at timestamptz NOT NULL DEFAULT now()
)
