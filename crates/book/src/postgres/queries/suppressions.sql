SELECT tenant, recipient_ref, recipient_masked, reason, actor, since FROM suppressions ORDER BY since, recipient_ref, tenant
