  NULL::bytea, (SELECT h.entries FROM job_history h WHERE h.id = j.id)
