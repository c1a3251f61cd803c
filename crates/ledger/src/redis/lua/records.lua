-- records.lua: records without what stands beside them.
--
-- KEYS[1]  meta   KEYS[2..]  jobs, at most 100   ARGV[1..5]  see prelude.lua
--
-- Returns  {"found", {record or nil, …}}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused then return { refused } end
local found = redis.call('MGET', unpack(KEYS, 2))
for n, stored in ipairs(found) do
  -- What is missing may come back: until the shard is recovered nobody may take it for lost.
  if not stored and recovering then return { 'recovering' } end
  found[n] = stored and record_of(stored)
end
return { 'found', found }
