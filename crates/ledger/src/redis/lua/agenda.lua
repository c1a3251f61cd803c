-- agenda.lua: what a shard has to do at a moment.
--
-- KEYS[1]  meta   KEYS[2]  tenants   KEYS[3]  watch   KEYS[4]  settle   KEYS[5]  review
-- ARGV[1..5]  see prelude.lua   ARGV[6]  now in ms
--
-- Returns  {"found", 0 or 1 for each of the four}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
local found = { 'found' }
for n = 2, 5 do
  local first = redis.call('ZRANGE', KEYS[n], 0, 0, 'WITHSCORES')
  found[n] = (first[2] and tonumber(first[2]) <= tonumber(ARGV[6])) and 1 or 0
end
return found
