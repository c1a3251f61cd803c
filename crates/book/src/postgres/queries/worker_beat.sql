UPDATE workers SET beat_at = greatest(beat_at, $2) WHERE id = $1 RETURNING drain_asked_at IS NOT NULL
