-- What was skipped is planned anew as well: another rule may send there.
UPDATE slots SET state = 3, why = ?3 WHERE schedule = ?1 AND at > ?2 AND state < 3
  AND NOT EXISTS (SELECT 1 FROM slot_jobs l JOIN jobs j ON j.n = l.job WHERE l.slot = slots.n AND l.withdrawn = 0 AND j.state < 4)
