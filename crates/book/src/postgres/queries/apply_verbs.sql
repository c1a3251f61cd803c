UPDATE verbs SET outcome = 1, closed_at = coalesce(closed_at, $3) WHERE number = ANY ($1::bigint[]) AND job = $2 AND outcome IS DISTINCT FROM 1
