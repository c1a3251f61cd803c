-- meta.lua: the only script that changes a shard's meta: the first start, and recovery.
--
-- KEYS[1]  curfew:{07}:meta   hash: incarnation, run_id, replication_id, recovering, since (ms)      KEYS[2]  all
-- ARGV[1]  incarnation, decimal   ARGV[2]  run id   ARGV[3]  replication id, both as seen on this connection
-- ARGV[4]  "initialise": where nothing stands
--          "adopt": take these ids for this incarnation, which recovers from now on; a lower incarnation is refused, and this one on another
--          server too: errands of it may live. What is adopted already stays as it is.
--          "recovered": end the recovery of this incarnation on this server
-- ARGV[5]  see prelude.lua   ARGV[6]  "adopt": when the caller found that the shard must be recovered, ms
--
-- Returns  {"done"}  {"stands", incarnation, run id, replication id, recovering}: something else does   {"not_empty"}: records without a meta
--          {"stale"}: found so long ago that another recovery may have come and gone

local LOOK_AGE_MAX_MS = 5000
local meta = redis.call('HMGET', KEYS[1], 'incarnation', 'run_id', 'replication_id', 'recovering')
local stands = { 'stands', meta[1] or '', meta[2] or '', meta[3] or '', meta[4] or '' }
local ours = meta[1] == ARGV[1] and meta[2] == ARGV[2] and meta[3] == ARGV[3]
local recovering, since
if ARGV[4] == 'initialise' then
  if meta[1] then return ours and { 'done' } or stands end
  if redis.call('ZCARD', KEYS[2]) > 0 then return { 'not_empty' } end
  recovering = '0'
elseif ARGV[4] == 'adopt' then
  if ours then return { 'done' } end
  -- Incarnations stay far below 2^53.
  if meta[1] and tonumber(meta[1]) >= tonumber(ARGV[1]) then return stands end
  if now_ms() - tonumber(ARGV[6]) > LOOK_AGE_MAX_MS then return { 'stale' } end
  recovering, since = '1', ms(now_ms())
elseif ARGV[4] == 'recovered' then
  if not ours then return stands end
  recovering = '0'
else
  return stands
end
redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'run_id', ARGV[2], 'replication_id', ARGV[3], 'recovering', recovering)
if since then redis.call('HSET', KEYS[1], 'since', since) end
return { 'done' }
