WHERE j.n = ?1
