-- ?1 a JSON array of shards, ?2 now. One step in the index per shard and tenant, as in lines.sql, and one look per timer index.
WITH RECURSIVE tenants (shard, tenant) AS (
  SELECT s.value, (SELECT r.tenant FROM ledger_records AS r WHERE r.shard = s.value AND r.line_at IS NOT NULL ORDER BY r.tenant LIMIT 1)
  FROM json_each(?1) AS s
  UNION ALL
  SELECT t.shard,
         (SELECT r.tenant FROM ledger_records AS r WHERE r.shard = t.shard AND r.line_at IS NOT NULL AND r.tenant > t.tenant ORDER BY r.tenant LIMIT 1)
  FROM tenants AS t WHERE t.tenant IS NOT NULL
),
due (shard) AS (
  SELECT DISTINCT t.shard FROM tenants AS t
  WHERE t.tenant IS NOT NULL
    AND EXISTS (SELECT 1 FROM ledger_records AS r WHERE r.shard = t.shard AND r.tenant = t.tenant AND r.line_at IS NOT NULL AND r.line_at <= ?2)
)
SELECT s.value, s.value IN (SELECT shard FROM due),
       EXISTS (SELECT 1 FROM ledger_records WHERE shard = s.value AND index_kind = 'watch' AND timer_at IS NOT NULL AND timer_at <= ?2),
       EXISTS (SELECT 1 FROM ledger_records WHERE shard = s.value AND index_kind = 'settle' AND timer_at IS NOT NULL AND timer_at <= ?2),
       EXISTS (SELECT 1 FROM ledger_records WHERE shard = s.value AND index_kind = 'review' AND timer_at IS NOT NULL AND timer_at <= ?2)
FROM json_each(?1) AS s ORDER BY s.key
