FROM unnest($1::bytea[]) AS g (id) JOIN jobs j ON j.id = g.id
