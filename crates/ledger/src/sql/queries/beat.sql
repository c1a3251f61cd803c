INSERT OR REPLACE INTO ledger_beat (id, count, at) VALUES (1, ?1, ?2)
