FROM unnest($1::text[]) AS g (key) JOIN job_keys k ON k.key = g.key JOIN jobs j ON j.id = k.job
