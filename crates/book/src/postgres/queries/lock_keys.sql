-- In the order of keys, so that no two transactions wait for each other. Read what is locked in a statement of its own: this one's
-- snapshot may be older than the lock.
SELECT j.id FROM unnest($1::text[]) AS g (key) JOIN job_keys k ON k.key = g.key JOIN jobs j ON j.id = k.job ORDER BY k.key FOR UPDATE OF j
