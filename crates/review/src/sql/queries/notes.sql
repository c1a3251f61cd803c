SELECT item, at, actor, text FROM item_notes WHERE item IN (SELECT value FROM json_each(?1)) ORDER BY n
