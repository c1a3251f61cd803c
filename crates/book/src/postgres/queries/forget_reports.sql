DELETE FROM reports WHERE shard = $1 AND incarnation < $2
