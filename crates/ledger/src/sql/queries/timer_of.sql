SELECT record, timer_at, line_at FROM ledger_records WHERE key = ?1
