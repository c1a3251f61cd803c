INSERT INTO migrations (name, sha256) VALUES ($1, $2)
