SELECT n FROM items WHERE job_id = $1 AND generation = $2 ORDER BY number DESC LIMIT 1
