-- In the order of keys: of two batches that share keys one waits for the other, never both.
INSERT INTO job_keys (key, job, shard)
SELECT g.key, g.job, g.shard FROM unnest($1::text[], $2::bytea[], $3::smallint[]) AS g (key, job, shard) ORDER BY g.key COLLATE "C"
ON CONFLICT (key) DO NOTHING RETURNING key
