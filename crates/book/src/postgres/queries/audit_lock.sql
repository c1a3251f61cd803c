-- Until the end of the transaction: entries are numbered without gaps, one after the other. Always the last lock that is taken.
SELECT pg_advisory_xact_lock('audit'::regclass::oid::integer, 0)
