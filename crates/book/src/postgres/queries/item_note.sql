INSERT INTO item_notes (item, at, actor, text) VALUES ($1, $2, $3, $4)
