SELECT EXISTS (SELECT 1 FROM job_keys WHERE key IN (SELECT value FROM json_each(?1))), coalesce((SELECT max(n) FROM jobs), 0)
