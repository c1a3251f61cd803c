-- One statement, one snapshot; the door's log and the rows are counted each on their own.
SELECT -1, count(*) FROM door_log WHERE date = ?1 AND (?2 IS NULL OR tenant = ?2)
UNION ALL
SELECT state, count(*) FROM jobs WHERE date = ?1 AND (?2 IS NULL OR tenant = ?2) GROUP BY state
