SELECT shard, incarnation FROM shards WHERE shard IN (SELECT value FROM json_each(?1))
