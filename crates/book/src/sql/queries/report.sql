INSERT INTO reports (shard, incarnation, worker) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
