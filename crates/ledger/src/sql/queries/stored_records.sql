-- ?1 a JSON array of ids.
SELECT r.id, r.record FROM json_each(?1) AS i CROSS JOIN ledger_records AS r ON r.id = i.value
