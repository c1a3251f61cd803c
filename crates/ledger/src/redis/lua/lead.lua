-- lead.lua: the soft lease on a shard: the first who asks has it, and keeps it while it asks again in time.
--
-- KEYS[1]  curfew:{07}:lead, string: who has it; gone when its time is over
-- ARGV[1]  who asks   ARGV[2]  how long, in ms
--
-- Returns  {"led"}      it is the caller's now, for that long
--          {"another"}  somebody else has it
-- No identity is asked for: no promise rests on it, two leaders cost each other refused swaps.

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return { 'led' } end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 'another' } end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return { 'led' }
