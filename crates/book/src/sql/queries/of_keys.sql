WHERE j.n IN (SELECT k.n FROM job_keys k WHERE k.key IN (SELECT value FROM json_each(?1)))
