SELECT d.job, NULL::text, NULL::bigint FROM door_log d
WHERE d.date = $1 AND ($2::text IS NULL OR d.tenant = $2) AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = d.job)
UNION ALL
SELECT j.id, j.key, j.state::bigint FROM jobs j
WHERE j.date = $1 AND ($2::text IS NULL OR j.tenant = $2)
  AND (j.state = 1 OR NOT EXISTS (SELECT 1 FROM door_log d WHERE d.date = j.date AND d.tenant = j.tenant AND d.job = j.id))
LIMIT $3
