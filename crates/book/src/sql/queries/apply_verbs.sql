UPDATE verbs SET outcome = 1, closed_at = coalesce(closed_at, ?3)
WHERE number IN (SELECT value FROM json_each(?1)) AND job = ?2 AND outcome IS NOT 1
