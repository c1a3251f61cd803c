INSERT INTO migrations (name, sha256, applied_at) VALUES (?1, ?2, CAST(unixepoch('subsec') * 1000 AS INTEGER));
