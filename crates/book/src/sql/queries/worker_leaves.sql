UPDATE workers SET stopped_at = ?2, beat_at = max(beat_at, ?2) WHERE id = ?1 AND stopped_at IS NULL
