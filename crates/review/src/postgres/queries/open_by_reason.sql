SELECT reason, count(*) FROM items WHERE closed_at IS NULL AND status <> 'replaying' GROUP BY reason
