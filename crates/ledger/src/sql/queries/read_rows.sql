-- ?1 a JSON array of keys. What a round judges by; not the record itself. CROSS: the keys first, then one look-up each.
SELECT r.id, r.key, r.generation, r.version, r.state, r.due_at, r.expires_at IS NOT NULL, r.entries
FROM json_each(?1) AS k CROSS JOIN ledger_records AS r ON r.key = k.value
