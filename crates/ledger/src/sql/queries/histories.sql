-- ?1 a JSON array of keys; one row for each, in their order.
SELECT (SELECT json_group_array(hex(entry)) FROM (SELECT h.entry FROM ledger_history AS h WHERE h.record_id = r.id ORDER BY h.n))
FROM json_each(?1) AS k LEFT JOIN ledger_records AS r ON r.key = k.value ORDER BY k.key
