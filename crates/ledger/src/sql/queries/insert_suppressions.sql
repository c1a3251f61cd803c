-- ?1 a JSON array of [tenant, recipient_ref].
INSERT OR IGNORE INTO ledger_suppressions (tenant, recipient_ref) SELECT value ->> 0, value ->> 1 FROM json_each(?1)
