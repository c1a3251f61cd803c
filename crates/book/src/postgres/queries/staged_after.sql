FROM jobs j WHERE j.state = 1 AND j.key > $1 ORDER BY j.key LIMIT $2
