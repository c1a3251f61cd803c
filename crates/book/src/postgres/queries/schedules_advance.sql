UPDATE schedules s SET cursor = v.cursor, open_slot = v.open_slot, open_made = v.open_made, next_scan = v.next_scan, scan_until = 0, trouble = NULL
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::bigint[]) AS v (n, cursor, open_slot, open_made, next_scan) WHERE s.n = v.n
