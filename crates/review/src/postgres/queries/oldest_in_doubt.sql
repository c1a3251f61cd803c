SELECT created_at FROM items WHERE closed_at IS NULL AND in_doubt AND status <> 'replaying' ORDER BY created_at LIMIT 1
