SELECT count(*) FROM slots s JOIN slot_jobs l ON l.slot = s.n JOIN jobs j ON j.id = l.job
WHERE s.schedule = $1 AND s.at > $2 AND NOT l.withdrawn AND j.state < 2
