UPDATE items SET fingerprint = $2, body = $3, diagnostic = $4 WHERE n = $1 RETURNING id
