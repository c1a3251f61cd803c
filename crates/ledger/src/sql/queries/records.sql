-- ?1 a JSON array of keys; one row for each, in their order.
SELECT r.record FROM json_each(?1) AS k LEFT JOIN ledger_records AS r ON r.key = k.value ORDER BY k.key
