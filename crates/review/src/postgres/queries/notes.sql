SELECT t.item, t.at, t.actor, t.text FROM unnest($1::bigint[]) AS g (item) JOIN item_notes t ON t.item = g.item ORDER BY t.n
