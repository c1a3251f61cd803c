-- get.lua: a record, its letter and its history, of one moment.
--
-- KEYS[1]  meta   KEYS[2]  job   KEYS[3]  letter   KEYS[4]  history   ARGV[1..5]  see prelude.lua
--
-- Returns  {"found", record, letter or nil, history}  {"missing"}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused then return { refused } end
local stored = redis.call('GET', KEYS[2])
-- What is missing may come back: until the shard is recovered nobody may take it for lost.
if not stored then return { recovering and 'recovering' or 'missing' } end
return { 'found', record_of(stored), redis.call('GET', KEYS[3]), redis.call('LRANGE', KEYS[4], 0, -1) }
