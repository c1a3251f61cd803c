WHERE s.tenant = $1 AND s.name = $2
