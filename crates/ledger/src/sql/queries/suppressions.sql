SELECT tenant, recipient_ref FROM ledger_suppressions
