FROM jobs j WHERE j.state = 1 AND j.shard = $1 AND j.release_at <= $2 AND j.key > $3 ORDER BY j.key LIMIT $4
