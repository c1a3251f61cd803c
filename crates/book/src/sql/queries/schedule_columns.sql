SELECT s.n, s.tenant, s.name, s.revision, s.phase, s.cursor, s.in_force_from, s.resumed, s.definition, s.private, s.fingerprint, s.open_slot,
  s.open_made, s.next_scan, s.trouble, s.changed_at, s.changed_by FROM schedules s
