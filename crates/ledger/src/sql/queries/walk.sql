-- ?1 shard, ?2 after this key, ?3 limit.
SELECT key, record, timer_at, postponed, line_at FROM ledger_records WHERE key > ?2 AND shard = ?1 ORDER BY key LIMIT ?3
