SELECT entries FROM job_history WHERE n = ?1
