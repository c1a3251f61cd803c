WHERE i.job_id = (SELECT k.job FROM job_keys k WHERE k.key = $1) AND i.closed_at IS NULL AND i.status <> 'replaying'
