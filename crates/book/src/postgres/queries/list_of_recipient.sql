FROM jobs j WHERE j.recipient_ref = $4 AND j.id < $1 AND j.state = ANY ($2::smallint[]) AND ($5::text IS NULL OR j.tenant = $5)
ORDER BY j.id DESC LIMIT $3
