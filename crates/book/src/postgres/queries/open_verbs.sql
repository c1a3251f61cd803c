SELECT v.number, v.generation, v.verb, v.at, j.key FROM verbs v JOIN jobs j ON j.id = v.job
WHERE v.outcome IS NULL AND v.at < $1 ORDER BY v.at, v.number LIMIT $2
