-- Jobs that wait and stop before a moment: the timer of a scheduled record is the moment at which it stops. ?1 shard, ?2 the moment.
SELECT count(*) FROM ledger_records
WHERE shard = ?1 AND index_kind = 'watch' AND timer_at IS NOT NULL AND timer_at < ?2 AND state = 'scheduled'
