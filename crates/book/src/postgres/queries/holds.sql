SELECT kind, name, by, hold_until, reason, actor, since FROM holds ORDER BY kind, name, by
