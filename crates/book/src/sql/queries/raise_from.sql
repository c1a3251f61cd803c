UPDATE shards SET incarnation = incarnation + 1 WHERE shard = ?1 AND incarnation = ?2
