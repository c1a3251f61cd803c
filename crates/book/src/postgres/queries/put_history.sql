INSERT INTO job_history (id, entries) SELECT v.id, v.entries FROM unnest($1::bytea[], $2::bytea[]) AS v (id, entries)
ON CONFLICT (id) DO UPDATE SET entries = EXCLUDED.entries
