INSERT OR REPLACE INTO beats (id, count, at) VALUES (1, ?1, ?2)
