INSERT INTO constants (name, value) SELECT g.name, g.value FROM unnest($1::text[], $2::text[]) AS g (name, value) ORDER BY g.name COLLATE "C"
ON CONFLICT (name) DO NOTHING
