WHERE j.tenant = ?4 AND j.id < ?1 AND j.state IN (SELECT value FROM json_each(?2)) ORDER BY j.id DESC LIMIT ?3
