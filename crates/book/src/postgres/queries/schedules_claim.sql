-- As `plan_claim.sql`: what another scheduler has in its hands is left to it; one's own are given again; a claim too far ahead is void.
WITH clock AS (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), due AS (
  SELECT s.n FROM schedules s
  WHERE s.next_scan <= $1
    AND (s.scan_until NOT BETWEEN (SELECT now + 1 FROM clock) AND (SELECT now + $4 FROM clock) OR s.scan_by = $3)
  ORDER BY s.next_scan, s.n LIMIT $2
  FOR UPDATE OF s SKIP LOCKED
)
UPDATE schedules SET scan_by = $3, scan_until = (SELECT now FROM clock) + $4 FROM due WHERE schedules.n = due.n RETURNING schedules.n
