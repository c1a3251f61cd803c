SELECT i.n, i.id, i.job_id, i.key, i.tenant, i.recipient_ref, i.recipient_masked, i.release_at, i.deadline_at, i.attempts, i.last, i.reason,
  i.diagnostic, i.owner, i.due_at, i.status, i.generation, i.number, i.replay_of, i.in_doubt, i.lease_ended_at, i.created_at
FROM items i
