UPDATE slot_jobs SET withdrawn = 1 WHERE job IN (SELECT value FROM json_each(?1))
