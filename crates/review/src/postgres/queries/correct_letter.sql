UPDATE job_letters SET letter = $2 WHERE id = $1
