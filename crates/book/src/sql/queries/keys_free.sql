-- A key whose job was taken back before the ledger ever had it: its slot's next job takes the key.
DELETE FROM job_keys WHERE key IN (SELECT value FROM json_each(?1)) AND EXISTS (
  SELECT 1 FROM slot_jobs l JOIN jobs j ON j.n = l.job WHERE l.job = job_keys.n AND l.withdrawn = 1 AND j.state = 4 AND j.ever_staged = 0)
