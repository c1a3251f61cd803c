-- ?1 a JSON array of [record_id, n, place, length], ?2 the entries one after the other.
INSERT INTO ledger_history (record_id, n, entry)
SELECT value ->> 0, value ->> 1, substr(?2, value ->> 2, value ->> 3) FROM json_each(?1)
