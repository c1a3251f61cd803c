INSERT INTO slots (schedule, date, slot, at, release_at, deadline_at, state, why, revision, expected)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::smallint[], $8::text[], $9::bigint[],
  $10::integer[])
ON CONFLICT (schedule, slot) DO UPDATE SET date = excluded.date, at = excluded.at, release_at = excluded.release_at,
  deadline_at = excluded.deadline_at, state = excluded.state, why = excluded.why, revision = excluded.revision, expected = excluded.expected
RETURNING n, schedule, slot
