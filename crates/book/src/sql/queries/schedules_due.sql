WHERE s.next_scan <= ?1 ORDER BY s.next_scan, s.n LIMIT ?2
