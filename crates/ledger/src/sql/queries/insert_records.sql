-- ?1 a JSON array of rows, ?2 their records one after the other; each row ends with the record's place and length in it.
INSERT INTO ledger_records (id, generation, version, state, due_at, index_kind, timer_at, line_at, expires_at, entries, record, key, shard, tenant)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9,
       substr(?2, value ->> 10, value ->> 11), value ->> 12, value ->> 13, value ->> 14
FROM json_each(?1)
