SELECT k.key, v.number, v.generation, v.verb, v.actor, v.outcome FROM job_keys k JOIN verbs v ON v.job = k.n
WHERE k.key IN (SELECT value FROM json_each(?1)) AND (v.outcome IS NULL OR v.outcome = 1) ORDER BY v.number
