-- postpone.lua: move a timer, or a place in line, on without a transition, where it still belongs to the version given.
--
-- KEYS[1]  meta   KEYS[2]  job   KEYS[3..13]  see place.lua
-- ARGV[1..5]  see prelude.lua
-- ARGV[6]  key   ARGV[7]  tenant   ARGV[8]  version, 8 bytes big-endian   ARGV[9]  ms   ARGV[10]  "timer" or "line"
--
-- Returns  {"moved"}  {"stale"}  {"other_server"}  {"other_incarnation"}  {"recovering"}
-- Repeating counts a timer's postponement twice; that only lengthens the next one.

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
local stored = redis.call('GET', KEYS[2])
if not stored or stored:sub(5, 12) ~= ARGV[8] then return { 'stale' } end
if ARGV[10] == 'line' then
  if not redis.call('ZSCORE', KEYS[8], ARGV[6]) then return { 'stale' } end
  redis.call('ZADD', KEYS[8], ARGV[9], ARGV[6])
  set_head(ARGV[7])
  return { 'moved' }
end
for _, sorted_set in pairs(INDEXES) do
  if redis.call('ZSCORE', sorted_set, ARGV[6]) then
    redis.call('ZADD', sorted_set, ARGV[9], ARGV[6])
    redis.call('HINCRBY', KEYS[13], ARGV[6], 1)
    return { 'moved' }
  end
end
return { 'stale' }
