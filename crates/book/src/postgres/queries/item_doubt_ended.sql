UPDATE items SET in_doubt = false WHERE n = $1
