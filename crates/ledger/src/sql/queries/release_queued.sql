-- ?1 now: the broker that held their wake-ups is gone. Not before they are due: a wake-up that comes early is dropped, and the next look would
-- be a claim grace behind the moment.
UPDATE ledger_records SET timer_at = max(?1, due_at), postponed = 0 WHERE state = 'queued' AND timer_at > max(?1, due_at)
