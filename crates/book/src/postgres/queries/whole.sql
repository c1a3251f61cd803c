  (SELECT l.letter FROM job_letters l WHERE l.id = j.id), (SELECT h.entries FROM job_history h WHERE h.id = j.id)
