SELECT name, sha256 FROM migrations
