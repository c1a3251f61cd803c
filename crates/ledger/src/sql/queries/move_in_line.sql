-- ?1 a JSON array of [key, version, ms]: a place in line that still belongs to that version moves on.
UPDATE ledger_records AS r SET line_at = j.value ->> 2
FROM json_each(?1) AS j
WHERE r.key = j.value ->> 0 AND r.version = j.value ->> 1 AND r.line_at IS NOT NULL
