-- ?1 kind, ?2 name, ?3 what the jobs wait for, ?4 until.
INSERT OR REPLACE INTO ledger_holds (kind, name, waits, until_at) VALUES (?1, ?2, ?3, ?4)
