INSERT INTO shards (shard, incarnation) VALUES (?1, 0) ON CONFLICT (shard) DO NOTHING
