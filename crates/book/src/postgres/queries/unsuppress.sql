DELETE FROM suppressions WHERE tenant = $1 AND recipient_ref = $2
