SELECT s.schedule, s.date, s.slot, s.state FROM unnest($1::bigint[], $2::text[]) AS g (schedule, date)
JOIN slots s ON s.schedule = g.schedule AND s.date = g.date
