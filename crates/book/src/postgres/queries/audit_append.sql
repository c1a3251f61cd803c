INSERT INTO audit (number, at, actor, action, object, reason, detail, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
