-- recount.lua: compare each counter of a shard with its recount, and mend it.
--
-- KEYS[1]  meta   KEYS[2]  all   KEYS[3]  counts   KEYS[4]  due   KEYS[5]  the prefix of jobs, in the same slot
-- ARGV[1..5]  see prelude.lua   ARGV[6]  bytes at the front of a record that hold its counters' names
--
-- Returns  {"recounted", n}  n counters mended   {"other_server"}  {"other_incarnation"}
--
-- It reads the front of every record of the shard while everybody waits: some 2 µs each. A shard holds what is live and due within minutes.

local refused = barrier()
if refused then return { refused } end
local recount, place, page = {}, 0, 1000
while true do
  local keys = redis.call('ZRANGE', KEYS[2], place, place + page - 1)
  for _, key in ipairs(keys) do
    local front = redis.call('GETRANGE', KEYS[5] .. key, 0, ARGV[6])
    if #front > 15 then
      for name in counters_of(front):gmatch('%S+') do recount[name] = (recount[name] or 0) + 1 end
    end
  end
  place = place + page
  if #keys < page then break end
end

local mended, held = 0, redis.call('HGETALL', KEYS[3])
for n = 1, #held, 2 do
  local name, right = held[n], recount[held[n]] or 0
  if tonumber(held[n + 1]) ~= right then
    mended = mended + 1
    if right == 0 then redis.call('HDEL', KEYS[3], name) else redis.call('HSET', KEYS[3], name, right) end
  end
  if right == 0 and name:sub(1, 2) == 'd:' then redis.call('ZREM', KEYS[4], name:sub(3)) end
  recount[name] = nil
end
for name, right in pairs(recount) do
  mended = mended + 1
  redis.call('HSET', KEYS[3], name, right)
  if name:sub(1, 2) == 'd:' then redis.call('ZADD', KEYS[4], name:sub(3), name:sub(3)) end
end
return { 'recounted', mended }
