-- ?1 and ?2 as in insert_records.sql. Key, shard and tenant never change.
UPDATE ledger_records AS r
SET generation = j.value ->> 1, version = j.value ->> 2, state = j.value ->> 3, due_at = j.value ->> 4, index_kind = j.value ->> 5,
    timer_at = j.value ->> 6, line_at = j.value ->> 7, expires_at = j.value ->> 8, entries = j.value ->> 9,
    record = substr(?2, j.value ->> 10, j.value ->> 11), postponed = 0
FROM json_each(?1) AS j
WHERE r.id = j.value ->> 0
