-- histories.lua: the stories of some records; an empty one where there is none.
--
-- KEYS[1]  meta   KEYS[2..]  histories, at most 100   ARGV[1..5]  see prelude.lua
--
-- Returns  {"found", {history, …}}  {"other_server"}  {"other_incarnation"}

local refused = barrier()
if refused then return { refused } end
local found = {}
for n = 2, #KEYS do found[n - 1] = redis.call('LRANGE', KEYS[n], 0, -1) end
return { 'found', found }
