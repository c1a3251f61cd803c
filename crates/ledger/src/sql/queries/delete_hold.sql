DELETE FROM ledger_holds WHERE kind = ?1 AND name = ?2
