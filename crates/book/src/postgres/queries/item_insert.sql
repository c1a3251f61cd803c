INSERT INTO items (id, job_id, key, tenant, recipient_ref, recipient_masked, release_at, deadline_at, attempts, last, reason, diagnostic,
  owner, status, generation, number, replay_of, in_doubt, lease_ended_at, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'open', $14, (SELECT count(*) + 1 FROM items WHERE job_id = $2), $15, $16, $17, $18)
RETURNING n
