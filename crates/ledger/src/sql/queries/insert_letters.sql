-- ?1 a JSON array of [record_id, place, length], ?2 the letters one after the other.
INSERT OR REPLACE INTO ledger_letters (record_id, letter)
SELECT value ->> 0, substr(?2, value ->> 1, value ->> 2) FROM json_each(?1)
