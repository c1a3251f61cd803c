-- heard.lua: a worker says that it lives, before it claims anything here: recovery waits for whoever the surviving store heard of lately.
-- Never written past the barrier: whom another server heard isn't known on this one.
--
-- KEYS[1]  meta   KEYS[2]  heard, sorted set: worker → when it was heard last, ms
-- ARGV[1..5]  see prelude.lua   ARGV[6]  worker   ARGV[7]  for how long it is kept, ms
--
-- Returns  {"heard"}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
redis.call('ZADD', KEYS[2], ms(now_ms()), ARGV[6])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. ms(now_ms() - tonumber(ARGV[7])))
-- What was written while the clock was far ahead, and was put back since.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. ms(now_ms() + tonumber(ARGV[7])), '+inf')
return { 'heard' }
