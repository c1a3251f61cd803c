WHERE i.job = (SELECT n FROM job_keys WHERE key = ?1) AND i.closed_at IS NULL AND i.status <> 'replaying'
