SELECT key FROM jobs WHERE date = $1 AND ($2::text IS NULL OR tenant = $2) AND state = 1 AND key > $3 ORDER BY key LIMIT $4
