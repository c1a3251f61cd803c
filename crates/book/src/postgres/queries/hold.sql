INSERT INTO holds (kind, name, by, hold_until, reason, actor, since) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (kind, name, by) DO UPDATE SET hold_until = EXCLUDED.hold_until, reason = EXCLUDED.reason, actor = EXCLUDED.actor, since = EXCLUDED.since
