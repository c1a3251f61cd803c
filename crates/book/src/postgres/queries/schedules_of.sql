WHERE s.n = ANY ($1::bigint[]) ORDER BY s.next_scan, s.n
