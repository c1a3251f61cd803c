SELECT release_at / 60000 AS minute, count(*) FROM jobs WHERE date = $1 AND state < 4 GROUP BY minute ORDER BY count(*) DESC, minute LIMIT 1
