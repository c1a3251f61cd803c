INSERT OR REPLACE INTO job_history (n, entries) SELECT value, ?2 FROM json_each(?1)
