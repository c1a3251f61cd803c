-- Jobs that a change takes back, locked in the order of keys. $1 schedule, $2 slots after, $3 released after, $4 whole slots alone: one of
-- which a job runs is left as it is. What is locked is looked at again by the statement that writes.
WITH live AS MATERIALIZED (
  SELECT l.slot, j.id, j.state = 0 AND NOT j.ever_staged AND j.release_at > $3
    AND NOT EXISTS (SELECT 1 FROM verbs v WHERE v.job = j.id AND v.outcome IS NULL) AS alone
  FROM slots s JOIN slot_jobs l ON l.slot = s.n JOIN jobs j ON j.id = l.job
  WHERE s.schedule = $1 AND s.at > $2 AND NOT l.withdrawn AND j.state < 2
), back AS MATERIALIZED (
  SELECT id FROM live WHERE alone AND (NOT $4 OR slot NOT IN (SELECT slot FROM live WHERE NOT alone))
)
SELECT j.id FROM jobs j WHERE j.id IN (SELECT id FROM back) ORDER BY j.key FOR UPDATE OF j
