UPDATE items SET status = 'replaying' WHERE n = $1
