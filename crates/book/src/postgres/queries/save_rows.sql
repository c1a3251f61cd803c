UPDATE jobs SET state = v.state, generation = v.generation, seen_generation = v.seen_generation, seen_incarnation = v.seen_incarnation,
  seen_version = v.seen_version, ever_staged = v.ever_staged, replays = v.replays, attempts = v.attempts, release_at = v.release_at,
  deadline_at = v.deadline_at, told = v.told
FROM unnest($1::bytea[], $2::smallint[], $3::integer[], $4::integer[], $5::integer[], $6::bigint[], $7::boolean[], $8::integer[], $9::integer[],
  $10::bigint[], $11::bigint[], $12::bytea[])
  AS v (id, state, generation, seen_generation, seen_incarnation, seen_version, ever_staged, replays, attempts, release_at, deadline_at, told)
WHERE jobs.id = v.id
