UPDATE job_letters SET letter = ?2 WHERE n = ?1
