SELECT s.slot, s.at, s.release_at, s.deadline_at, s.state, s.why, s.expected,
  count(*) FILTER (WHERE j.state = 0), count(*) FILTER (WHERE j.state = 1), count(*) FILTER (WHERE j.state = 2),
  count(*) FILTER (WHERE j.state = 3), count(*) FILTER (WHERE j.state = 4), count(*) FILTER (WHERE j.state = 5),
  count(*) FILTER (WHERE j.state < 2 AND j.release_at < ?3),
  count(*) FILTER (WHERE EXISTS (SELECT 1 FROM items i WHERE i.job = j.n AND i.closed_at IS NULL))
FROM slots s LEFT JOIN slot_jobs l ON l.slot = s.n AND l.withdrawn = 0 LEFT JOIN jobs j ON j.n = l.job
WHERE s.schedule = ?1 AND s.date = ?2 GROUP BY s.n ORDER BY s.at, s.slot
