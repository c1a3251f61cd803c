SELECT incarnation FROM shards WHERE shard = ?1
