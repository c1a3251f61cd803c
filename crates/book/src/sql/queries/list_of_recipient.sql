WHERE j.recipient_ref = ?4 AND j.id < ?1 AND j.state IN (SELECT value FROM json_each(?2)) AND (?5 IS NULL OR j.tenant = ?5) ORDER BY j.id DESC LIMIT ?3
