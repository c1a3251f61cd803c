-- ?1 shard, ?2 now, ?3 at most of each tenant, ?4 at most in all, ?5 a JSON array of tenants to pass over.
--
-- A skip-scan: one step in the index per tenant, then the heads of each line, so that one tenant's hundred thousand cost another nothing.
-- Round robin: everybody's first, the longest waiting before the others, then everybody's second.
WITH RECURSIVE tenants (tenant) AS (
  SELECT (SELECT tenant FROM ledger_records WHERE shard = ?1 AND line_at IS NOT NULL ORDER BY tenant LIMIT 1)
  UNION ALL
  SELECT (SELECT r.tenant FROM ledger_records AS r WHERE r.shard = ?1 AND r.line_at IS NOT NULL AND r.tenant > t.tenant ORDER BY r.tenant LIMIT 1)
  FROM tenants AS t WHERE t.tenant IS NOT NULL
),
heads AS (
  SELECT r.id, r.line_at, row_number() OVER (PARTITION BY t.tenant ORDER BY r.line_at, r.id) AS place
  FROM tenants AS t CROSS JOIN ledger_records AS r
  WHERE t.tenant IS NOT NULL AND t.tenant NOT IN (SELECT value FROM json_each(?5))
    AND r.id IN (SELECT l.id FROM ledger_records AS l WHERE l.shard = ?1 AND l.tenant = t.tenant AND l.line_at IS NOT NULL AND l.line_at <= ?2
                 ORDER BY l.line_at LIMIT ?3)
),
served AS (SELECT id, line_at, place FROM heads ORDER BY place, line_at, id LIMIT ?4)
SELECT r.record, s.line_at FROM served AS s CROSS JOIN ledger_records AS r ON r.id = s.id ORDER BY s.place, s.line_at, s.id
