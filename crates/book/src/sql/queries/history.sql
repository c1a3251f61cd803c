  NULL, h.entries FROM jobs j LEFT JOIN job_history h ON h.n = j.n
