FROM jobs j WHERE j.id < $1 AND j.state = ANY ($2::smallint[]) ORDER BY j.id DESC LIMIT $3
