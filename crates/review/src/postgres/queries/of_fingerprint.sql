SELECT id FROM items WHERE fingerprint = $1
