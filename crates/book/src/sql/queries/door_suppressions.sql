SELECT tenant, recipient_ref FROM suppressions WHERE recipient_ref IN (SELECT value FROM json_each(?1))
