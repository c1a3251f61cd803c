SELECT attempts, count(*) FROM (SELECT attempts FROM jobs WHERE state IN (2, 3) AND attempts > 0 ORDER BY id DESC LIMIT $1) AS latest GROUP BY attempts ORDER BY attempts
