-- counts.lua: values of counters, and the oldest next time that is due.
--
-- KEYS[1]  meta   KEYS[2]  counts   KEYS[3]  due
-- ARGV[1..5]  see prelude.lua   ARGV[6]  now in ms, for the oldest   ARGV[7..]  counters, at most 1,000
--
-- Returns  {"found", ms or "", value or nil, …}  {"other_server"}  {"other_incarnation"}

local refused = barrier()
if refused then return { refused } end
local oldest = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[6], 'LIMIT', 0, 1)
local found = { 'found', oldest[1] or '' }
for n = 7, #ARGV do found[n - 4] = redis.call('HGET', KEYS[2], ARGV[n]) or '0' end
return found
