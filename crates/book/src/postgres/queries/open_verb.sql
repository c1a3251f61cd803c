INSERT INTO verbs (job, generation, verb, actor, reason, at, outcome, closed_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING number
