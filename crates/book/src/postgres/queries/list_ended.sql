FROM jobs j WHERE j.state >= 3 AND j.id < $1 AND j.state = ANY ($2::smallint[]) ORDER BY j.id DESC LIMIT $3
