-- ?1 a JSON array of ids.
DELETE FROM ledger_letters WHERE record_id IN (SELECT value FROM json_each(?1))
