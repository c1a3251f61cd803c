SELECT j.id, j.key, j.tenant, j.shard, j.recipient_ref, j.recipient_masked, j.content_revision, j.state, j.generation,
  j.seen_generation, j.seen_incarnation, j.seen_version, j.ever_staged, j.replays, j.attempts, j.release_at, j.deadline_at, j.facts, j.told,
  (SELECT min(v.number) FROM verbs v WHERE v.job = j.id AND v.outcome IS NULL),
  (SELECT i.n FROM items i WHERE i.job_id = j.id AND i.closed_at IS NULL),
