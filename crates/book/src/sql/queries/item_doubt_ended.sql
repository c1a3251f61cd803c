UPDATE items SET in_doubt = 0 WHERE n = ?1
