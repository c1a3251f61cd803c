FROM jobs j
WHERE j.id IN (SELECT l.job FROM schedules c JOIN slots s ON s.schedule = c.n JOIN slot_jobs l ON l.slot = s.n
               WHERE c.name = $4 AND ($5::text IS NULL OR c.tenant = $5))
  AND j.id < $1 AND j.state = ANY ($2::smallint[]) AND ($6::text IS NULL OR j.recipient_ref = $6) ORDER BY j.id DESC LIMIT $3
