SELECT n, revision, cursor, recipients FROM schedules WHERE tenant = ?1 AND name = ?2 AND phase < 2
