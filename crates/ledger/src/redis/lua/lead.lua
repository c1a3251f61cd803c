-- lead.lua: the soft lease on a shard, and who would like to have it.
--
-- KEYS[1]  curfew:{07}:lead, string: who has it; gone when its time is over
-- KEYS[2]  curfew:{07}:seekers, sorted set: who works or would work the shard → ms until which it counts
-- ARGV[1]  who asks   ARGV[2]  how long, in ms
-- ARGV[3]  "lead" takes or renews it, "ask" only asks, "hand_back" gives it to anybody and goes on seeking, "leave" gives it back and seeks no more
--
-- Returns  {"ours", n}  {"free", n}  {"anothers", n}  how it stands now; n: how many seek it, the caller too unless it left
-- No identity is asked for: no promise rests on it, two leaders cost each other refused swaps.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
-- What was written while the clock was ahead, and was put back since, counts no longer than it would by a right one (DESIGN 4).
local longest = 2 * tonumber(ARGV[2])
if redis.call('PTTL', KEYS[1]) > longest then redis.call('DEL', KEYS[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. (now + longest), '+inf')
local holder = redis.call('GET', KEYS[1])

if ARGV[3] == 'lead' and (not holder or holder == ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  holder = ARGV[1]
elseif (ARGV[3] == 'hand_back' or ARGV[3] == 'leave') and holder == ARGV[1] then
  redis.call('DEL', KEYS[1])
  holder = false
end

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if ARGV[3] == 'leave' then
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
local standing = 'free'
if holder then standing = holder == ARGV[1] and 'ours' or 'anothers' end
return { standing, redis.call('ZCARD', KEYS[2]) }
