INSERT INTO suppressions (tenant, recipient_ref, recipient_masked, reason, actor, since) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING
