-- Held against a raise until this transaction ends: from a raise's commit on no errand of before changes the book.
SELECT shard, incarnation FROM shards WHERE shard = ANY ($1::smallint[]) ORDER BY shard FOR SHARE
