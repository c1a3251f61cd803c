SELECT job_id FROM items WHERE id = $1
