WHERE j.state = ?2 AND j.shard = ?1 AND j.release_at <= ?3 AND j.key > ?4 ORDER BY j.key LIMIT ?5
