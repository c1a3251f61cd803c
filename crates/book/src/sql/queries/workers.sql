SELECT id, roles, name, version, reads_form, started_at, beat_at, stopped_at, drain_asked_at FROM workers WHERE beat_at >= ?1 ORDER BY started_at, id
