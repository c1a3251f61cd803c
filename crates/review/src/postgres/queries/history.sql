SELECT entries FROM job_history WHERE id = $1
