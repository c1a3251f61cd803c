-- ?1 after this id, ?2 limit: leases of a process that is gone.
SELECT id, record FROM ledger_records
WHERE id > ?1 AND state IN ('claimed', 'handoff') AND timer_at IS NOT NULL ORDER BY id LIMIT ?2
