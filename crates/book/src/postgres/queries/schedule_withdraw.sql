-- Under the locks: what was staged, moved near or given to a verb meanwhile is left.
WITH back AS (
  UPDATE jobs SET state = 4, told = $3
  WHERE id = ANY ($1::bytea[]) AND state = 0 AND NOT ever_staged AND release_at > $2
    AND NOT EXISTS (SELECT 1 FROM verbs v WHERE v.job = jobs.id AND v.outcome IS NULL)
  RETURNING id
), links AS (
  UPDATE slot_jobs SET withdrawn = true FROM back WHERE slot_jobs.job = back.id
), stories AS (
  INSERT INTO job_history (id, entries) SELECT id, $4 FROM back ON CONFLICT (id) DO UPDATE SET entries = EXCLUDED.entries
)
SELECT count(*) FROM back
