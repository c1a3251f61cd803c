INSERT INTO door_log (date, tenant, job, at, actor) VALUES
