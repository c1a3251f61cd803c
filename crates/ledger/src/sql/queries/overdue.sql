-- ?1 shard, ?2 index, ?3 now, ?4 limit.
SELECT record, timer_at, postponed FROM ledger_records
WHERE shard = ?1 AND index_kind = ?2 AND timer_at IS NOT NULL AND timer_at <= ?3
ORDER BY timer_at LIMIT ?4
