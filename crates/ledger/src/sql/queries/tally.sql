-- What every counter rests on. ?1 a shard, or NULL for all.
SELECT shard, tenant, state, due_at, count(*) FROM ledger_records
WHERE expires_at IS NULL AND (?1 IS NULL OR shard = ?1)
GROUP BY shard, tenant, state, due_at
