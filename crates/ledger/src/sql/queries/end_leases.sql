-- ?1 a JSON array of [id, version, timer, place, length], ?2 the records one after the other.
UPDATE ledger_records AS r
SET version = j.value ->> 1, timer_at = j.value ->> 2, postponed = 0, record = substr(?2, j.value ->> 3, j.value ->> 4)
FROM json_each(?1) AS j
WHERE r.id = j.value ->> 0
