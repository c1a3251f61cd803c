UPDATE jobs NOT INDEXED SET state = v.column2, generation = v.column3, seen_generation = v.column4, seen_incarnation = v.column5, seen_version = v.column6,
  ever_staged = v.column7, replays = v.column8, attempts = v.column9, release_at = v.column10, deadline_at = v.column11, told = v.column12
FROM (VALUES
