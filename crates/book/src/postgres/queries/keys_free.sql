-- A key whose job was taken back before the ledger ever had it: its slot's next job takes the key.
DELETE FROM job_keys k USING slot_jobs l, jobs j
WHERE k.key = ANY ($1::text[]) AND l.job = k.job AND l.withdrawn AND j.id = k.job AND j.state = 4 AND NOT j.ever_staged
