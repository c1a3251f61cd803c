-- ?1 a JSON array of [key, version, ms]: a timer that still belongs to that version moves on.
UPDATE ledger_records AS r SET timer_at = j.value ->> 2, postponed = r.postponed + 1
FROM json_each(?1) AS j
WHERE r.key = j.value ->> 0 AND r.version = j.value ->> 1 AND r.timer_at IS NOT NULL
