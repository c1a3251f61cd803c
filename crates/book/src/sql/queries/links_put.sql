INSERT INTO slot_jobs (job, slot, withdrawn)
SELECT k.n, json_extract(value, '$[1]'), 0 FROM json_each(?1) JOIN job_keys k ON k.key = json_extract(value, '$[0]')
