SELECT id, roles, name, version, reads_form, started_at, beat_at, stopped_at, drain_asked_at, drain_best, drain_latest FROM workers WHERE beat_at >= $1 ORDER BY started_at, id
