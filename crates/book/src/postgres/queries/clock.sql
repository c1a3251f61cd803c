-- The server's clock, not its transaction's: milliseconds since the epoch.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
