SELECT j.release_at FROM jobs j
WHERE j.state = 0 AND NOT EXISTS (SELECT 1 FROM verbs o WHERE o.job = j.id AND o.outcome IS NULL)
ORDER BY j.release_at LIMIT 1
