-- Of two consumers that meet the same message one makes the item, and the other finds it.
SELECT pg_advisory_xact_lock(hashtextextended('curfew quarantine ' || $1, 'items'::regclass::oid::bigint))
