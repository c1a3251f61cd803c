INSERT INTO slot_jobs (job, slot, withdrawn) SELECT job, slot, false FROM unnest($1::bytea[], $2::bigint[]) AS g (job, slot)
