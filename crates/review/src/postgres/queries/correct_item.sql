UPDATE items SET recipient_ref = $2, recipient_masked = $3 WHERE n = $1
