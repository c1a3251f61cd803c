SELECT n, entry FROM ledger_history WHERE record_id = ?1 ORDER BY n
