UPDATE items SET owner = $2, due_at = coalesce($3, due_at) WHERE n = $1
