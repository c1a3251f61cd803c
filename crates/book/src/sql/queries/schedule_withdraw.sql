-- ?1 schedule, ?2 slots after, ?3 released after, ?4 what the jobs are told, ?5 whole slots alone: one of which a job runs is left as it is.
WITH live AS (
  SELECT l.slot, j.n, j.state = 0 AND j.ever_staged = 0 AND j.release_at > ?3
    AND NOT EXISTS (SELECT 1 FROM verbs v WHERE v.job = j.n AND v.outcome IS NULL) AS alone
  FROM slots s JOIN slot_jobs l ON l.slot = s.n JOIN jobs j ON j.n = l.job
  WHERE s.schedule = ?1 AND s.at > ?2 AND l.withdrawn = 0 AND j.state < 2
)
UPDATE jobs SET state = 4, told = ?4
WHERE n IN (SELECT n FROM live WHERE alone AND (?5 = 0 OR slot NOT IN (SELECT slot FROM live WHERE NOT alone)))
RETURNING n
