INSERT INTO workers (id, roles, name, version, reads_form, started_at, beat_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
ON CONFLICT (id) DO NOTHING
