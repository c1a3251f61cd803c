WHERE i.n < $1 AND ($2::text IS NULL OR i.tenant = $2) AND ($3::text IS NULL OR i.reason = $3) ORDER BY i.n DESC LIMIT $4
