WHERE s.phase < 2 AND (s.tenant, s.name) > (?1, ?2) AND (?3 IS NULL OR s.tenant = ?3) ORDER BY s.tenant, s.name LIMIT ?4
