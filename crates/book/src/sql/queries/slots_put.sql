INSERT INTO slots (schedule, date, slot, at, release_at, deadline_at, state, why, revision, expected)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'),
  json_extract(value, '$[4]'), json_extract(value, '$[5]'), json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]'),
  json_extract(value, '$[9]') FROM json_each(?1) WHERE true
ON CONFLICT (schedule, slot) DO UPDATE SET date = excluded.date, at = excluded.at, release_at = excluded.release_at,
  deadline_at = excluded.deadline_at, state = excluded.state, why = excluded.why, revision = excluded.revision, expected = excluded.expected
RETURNING n, schedule, slot
