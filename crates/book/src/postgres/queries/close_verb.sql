UPDATE verbs SET outcome = $2, closed_at = coalesce(closed_at, $3) WHERE number = $1
