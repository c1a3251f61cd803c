SELECT tenant, recipient_ref FROM suppressions WHERE recipient_ref = ANY ($1::text[])
