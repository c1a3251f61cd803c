-- ?1 now, ?2 limit.
DELETE FROM ledger_records WHERE id IN (
  SELECT id FROM ledger_records WHERE expires_at IS NOT NULL AND expires_at <= ?1 ORDER BY expires_at LIMIT ?2
) RETURNING id
