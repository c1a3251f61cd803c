-- Rows that another scheduler has in its hands this very moment, or read within the last seconds, are left to it; one's own are given again.
-- Nothing but double work rests on this: creating is idempotent. A claim that lies too far ahead is of a clock that was set back: void.
WITH clock AS (
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), due AS (
  SELECT j.id FROM jobs j
  WHERE j.state = 0 AND j.release_at <= $1 AND j.shard = ANY ($2::smallint[])
    AND (j.staging_until NOT BETWEEN (SELECT now + 1 FROM clock) AND (SELECT now + $5 FROM clock) OR j.staging_by = $4)
    AND NOT EXISTS (SELECT 1 FROM verbs o WHERE o.job = j.id AND o.outcome IS NULL)
  ORDER BY j.release_at, j.id LIMIT $3
  FOR UPDATE OF j SKIP LOCKED
)
UPDATE jobs SET staging_by = $4, staging_until = (SELECT now FROM clock) + $5 FROM due WHERE jobs.id = due.id RETURNING jobs.id
