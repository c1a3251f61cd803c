-- Records on their way, few at any time: their timers are earlier than the moment at which they stop, or a lease. ?1 shard, ?2 the latest timer.
SELECT record FROM ledger_records
WHERE shard = ?1 AND index_kind = 'watch' AND timer_at IS NOT NULL AND timer_at < ?2 AND state <> 'scheduled'
