SELECT kind, name, waits, until_at FROM ledger_holds
