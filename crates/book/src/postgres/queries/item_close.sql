UPDATE items SET status = $2, closed_at = $3 WHERE n = $1 AND closed_at IS NULL RETURNING id
