-- ?1 now: the broker that held their wake-ups is gone.
UPDATE ledger_records SET timer_at = ?1, postponed = 0 WHERE state = 'queued' AND timer_at > ?1
