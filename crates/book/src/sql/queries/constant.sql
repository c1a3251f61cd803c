INSERT INTO constants (name, value) VALUES (?1, ?2) ON CONFLICT DO NOTHING
