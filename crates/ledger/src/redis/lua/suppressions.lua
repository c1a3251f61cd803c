-- suppressions.lua: put a list that was written beside in the place of the shard's suppressions.
--
-- KEYS[1]  meta   KEYS[2]  suppressed, set   KEYS[3]  the list, written beside   KEYS[4]  digest of the list in force, string
-- ARGV[1..5]  see prelude.lua   ARGV[6]  how many the list has   ARGV[7]  its digest
--
-- Returns  {"replaced"}  {"torn"}: the list beside isn't whole   {"other_server"}  {"other_incarnation"}

local refused = barrier()
if refused then return { refused } end
if redis.call('SCARD', KEYS[3]) ~= tonumber(ARGV[6]) then return { 'torn' } end
if ARGV[6] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('RENAME', KEYS[3], KEYS[2])
  redis.call('PERSIST', KEYS[2])
end
redis.call('SET', KEYS[4], ARGV[7])
return { 'replaced' }
