-- ?1 key, ?2 generation, ?3 version, ?4 index, ?5 timer, ?6 place in line: what is there stays.
UPDATE ledger_records SET index_kind = coalesce(index_kind, ?4), timer_at = coalesce(timer_at, ?5), line_at = coalesce(line_at, ?6),
  postponed = CASE WHEN timer_at IS NULL THEN 0 ELSE postponed END
WHERE key = ?1 AND generation = ?2 AND version = ?3
