SELECT date, slot, state FROM slots WHERE schedule = ?1 AND date IN (SELECT value FROM json_each(?2))
