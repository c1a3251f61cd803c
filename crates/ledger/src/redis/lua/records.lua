-- records.lua: records without what stands beside them.
--
-- KEYS[1]  meta   KEYS[2..]  jobs, at most 100   ARGV[1..5]  see prelude.lua
--
-- Returns  {"found", {record or nil, …}}  {"other_server"}  {"other_incarnation"}

local refused = barrier()
if refused then return { refused } end
local found = redis.call('MGET', unpack(KEYS, 2))
for n, stored in ipairs(found) do found[n] = stored and record_of(stored) end
return { 'found', found }
