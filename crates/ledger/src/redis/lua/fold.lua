-- fold.lua: replace a long history by its folded form, where the record still has the version it was folded for.
--
-- KEYS[1]  meta   KEYS[2]  job   KEYS[3]  history, list
-- ARGV[1..5]  see prelude.lua   ARGV[6]  generation and version, 12 bytes   ARGV[7..]  the entries, at most 64
--
-- Returns  {"folded"}  {"stale"}  {"other_server"}  {"other_incarnation"}

local refused = barrier()
if refused then return { refused } end
local stored = redis.call('GET', KEYS[2])
if not stored or fence_of(stored) ~= ARGV[6] then return { 'stale' } end
redis.call('DEL', KEYS[3])
for n = 7, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[n]) end
return { 'folded' }
