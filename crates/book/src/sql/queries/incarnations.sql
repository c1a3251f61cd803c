SELECT shard, incarnation FROM shards WHERE incarnation > 0
