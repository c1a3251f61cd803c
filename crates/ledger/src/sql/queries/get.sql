-- ?1 a key. One statement, so that record, letter and history are of one moment.
SELECT r.record, l.letter,
       (SELECT json_group_array(hex(entry)) FROM (SELECT h.entry FROM ledger_history AS h WHERE h.record_id = r.id ORDER BY h.n))
FROM ledger_records AS r LEFT JOIN ledger_letters AS l ON l.record_id = r.id
WHERE r.key = ?1
