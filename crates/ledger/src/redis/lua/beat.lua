-- beat.lua: the heartbeat that this store keeps of the book: never written past the barrier, for recovery reads how far the store had come.
--
-- KEYS[1]  meta   KEYS[2]  beat, hash: count, at
-- ARGV[1..5]  see prelude.lua   ARGV[6]  count
--
-- Returns  {"beaten"}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
redis.call('HSET', KEYS[2], 'count', ARGV[6], 'at', ms(now_ms()))
return { 'beaten' }
