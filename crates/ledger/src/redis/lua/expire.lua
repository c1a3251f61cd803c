-- expire.lua: delete tombstones whose time is over, and what the server's own expiry left of them in the indexes.
--
-- KEYS[1]  meta   KEYS[2]  expiry   KEYS[3]  all   KEYS[4]  the prefix of jobs   KEYS[5]  of letters   KEYS[6]  of histories, all in the same slot
-- ARGV[1..5]  see prelude.lua   ARGV[6]  now in ms   ARGV[7]  at most so many, 1,000 or fewer
--
-- Returns  {"expired", n}  {"other_server"}  {"other_incarnation"}  {"recovering"}
-- A live record is never deleted, whatever the index says (L4).

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[6], 'LIMIT', 0, ARGV[7])
local expired = 0
for _, key in ipairs(over) do
  if redis.call('GETRANGE', KEYS[4] .. key, 12, 12) ~= 'L' then
    redis.call('DEL', KEYS[4] .. key, KEYS[5] .. key, KEYS[6] .. key)
    redis.call('ZREM', KEYS[3], key)
    expired = expired + 1
  end
  redis.call('ZREM', KEYS[2], key)
end
return { 'expired', expired }
