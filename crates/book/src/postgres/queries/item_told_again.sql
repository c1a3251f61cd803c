UPDATE items SET reason = $2, diagnostic = $3, last = $4, attempts = $5, in_doubt = $6, lease_ended_at = $7 WHERE n = $1
