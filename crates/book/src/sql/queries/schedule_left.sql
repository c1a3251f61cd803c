SELECT count(*) FROM slots s JOIN slot_jobs l ON l.slot = s.n JOIN jobs j ON j.n = l.job
WHERE s.schedule = ?1 AND s.at > ?2 AND l.withdrawn = 0 AND j.state < 2
