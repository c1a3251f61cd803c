WHERE j.state = 0 AND j.release_at <= ?1 AND j.shard IN (SELECT value FROM json_each(?2))
  AND NOT EXISTS (SELECT 1 FROM verbs o WHERE o.job = j.n AND o.outcome IS NULL)
ORDER BY j.release_at, j.n LIMIT ?3
