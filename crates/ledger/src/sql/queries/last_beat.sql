SELECT count, at FROM ledger_beat
