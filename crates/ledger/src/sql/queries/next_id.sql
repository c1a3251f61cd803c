-- Letters and histories can't outlive their record, so the highest id of a record is the highest anywhere.
SELECT coalesce(max(id), 0) + 1 FROM ledger_records
