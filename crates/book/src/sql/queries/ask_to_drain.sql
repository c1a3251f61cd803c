UPDATE workers SET drain_asked_at = coalesce(drain_asked_at, ?1) WHERE stopped_at IS NULL RETURNING beat_at >= ?2
