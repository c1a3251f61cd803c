-- One statement, one snapshot; the door's log and the rows are counted each on their own.
SELECT -1::bigint, count(*) FROM door_log WHERE date = $1 AND ($2::text IS NULL OR tenant = $2)
UNION ALL
SELECT state::bigint, count(*) FROM jobs WHERE date = $1 AND ($2::text IS NULL OR tenant = $2) GROUP BY state
