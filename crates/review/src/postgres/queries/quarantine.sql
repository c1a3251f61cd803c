INSERT INTO items (id, key, tenant, attempts, reason, diagnostic, owner, status, generation, number, in_doubt, created_at, fingerprint, body)
VALUES ($1, $2, $3, 0, $4, $5, NULL, 'open', 0, 0, false, $6, $7, $8)
