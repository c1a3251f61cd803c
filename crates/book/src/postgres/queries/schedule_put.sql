INSERT INTO schedules (tenant, name, revision, phase, cursor, in_force_from, resumed, definition, recipients, private, fingerprint, next_scan,
  changed_at, changed_by)
-- $15: the row is locked. Without it nothing is written over one that somebody else has made meanwhile.
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (tenant, name) DO UPDATE SET revision = excluded.revision, phase = excluded.phase, cursor = excluded.cursor,
  in_force_from = excluded.in_force_from, resumed = excluded.resumed, definition = excluded.definition, recipients = excluded.recipients,
  private = excluded.private, fingerprint = excluded.fingerprint, open_slot = NULL, open_made = NULL, next_scan = excluded.next_scan, scan_until = 0,
  trouble = NULL, changed_at = excluded.changed_at, changed_by = excluded.changed_by
WHERE $15
