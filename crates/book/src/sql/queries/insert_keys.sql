INSERT INTO job_keys (key, n) VALUES
