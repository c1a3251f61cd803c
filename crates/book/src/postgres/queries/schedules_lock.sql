-- In the order of their numbers, so that no two batches wait for each other.
SELECT s.n, s.tenant, s.name, s.revision, s.cursor, s.recipients
FROM schedules s JOIN unnest($1::text[], $2::text[]) AS g (tenant, name) ON s.tenant = g.tenant AND s.name = g.name
WHERE s.phase < 2 ORDER BY s.n FOR UPDATE OF s
