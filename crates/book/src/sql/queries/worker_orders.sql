SELECT drain_asked_at IS NOT NULL FROM workers WHERE id = ?1
