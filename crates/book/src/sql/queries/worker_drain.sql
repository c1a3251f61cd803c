UPDATE workers SET drain_best = ?2, drain_latest = ?3 WHERE id = ?1
