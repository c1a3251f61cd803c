INSERT OR REPLACE INTO holds (kind, name, by, hold_until, reason, actor, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
