INSERT INTO jobs (n, id, key, tenant, shard, date, recipient_ref, recipient_masked, content_revision, state, generation,
  seen_generation, seen_incarnation, seen_version, ever_staged, replays, attempts, release_at, deadline_at, facts, told) VALUES
