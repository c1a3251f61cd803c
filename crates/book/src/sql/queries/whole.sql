  l.letter, h.entries FROM jobs j LEFT JOIN job_letters l ON l.n = j.n LEFT JOIN job_history h ON h.n = j.n
