UPDATE items SET status = 'resolved', closed_at = $2 WHERE n = $1
