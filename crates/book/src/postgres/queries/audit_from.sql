SELECT number, at, actor, action, object, reason, detail, hash FROM audit WHERE number > $1 ORDER BY number LIMIT $2
