WITH given AS (
  SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::smallint[], $5::text[], $6::text[], $7::text[], $8::integer[], $9::smallint[],
    $10::bigint[], $11::bigint[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[])
  AS g (id, key, tenant, shard, date, recipient_ref, recipient_masked, content_revision, state, release_at, deadline_at, facts, told, letter, entries)
), put_jobs AS (
  INSERT INTO jobs (id, key, tenant, shard, date, recipient_ref, recipient_masked, content_revision, state, generation, seen_generation,
    seen_incarnation, seen_version, ever_staged, replays, attempts, release_at, deadline_at, facts, told)
  SELECT id, key, tenant, shard, date, recipient_ref, recipient_masked, content_revision, state, 1, 1, 0, 0, false, 0, 0, release_at, deadline_at,
    facts, told
  FROM given
), put_letters AS (
  INSERT INTO job_letters (id, letter) SELECT id, letter FROM given
), put_histories AS (
  INSERT INTO job_history (id, entries) SELECT id, entries FROM given WHERE entries IS NOT NULL
)
INSERT INTO door_log (date, tenant, job, at, actor) SELECT date, tenant, id, $16, $17 FROM given
