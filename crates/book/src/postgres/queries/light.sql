  NULL::bytea, NULL::bytea
