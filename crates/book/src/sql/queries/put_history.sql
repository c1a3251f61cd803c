INSERT OR REPLACE INTO job_history (n, entries) VALUES
