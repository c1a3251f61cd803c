-- One lock per schema; it is let go with the session.
SELECT pg_advisory_lock(hashtextextended('curfew migrate ' || coalesce(current_schema(), ''), 0))
