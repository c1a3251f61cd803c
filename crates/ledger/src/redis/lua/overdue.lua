-- overdue.lua: overdue timers of one index, the longest overdue first.
--
-- KEYS[1]  meta   KEYS[2]  the index   KEYS[3]  postponed   KEYS[4]  the prefix of jobs, in the same slot: the members of the index follow it
-- ARGV[1..5]  see prelude.lua   ARGV[6]  now in ms   ARGV[7]  at most so many, 1,000 or fewer
--
-- Returns  {"found", {record, ms, postponed}, …}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
local members = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[6], 'WITHSCORES', 'LIMIT', 0, ARGV[7])
local found = { 'found' }
for n = 1, #members, 2 do
  local stored = redis.call('GET', KEYS[4] .. members[n])
  if stored then
    found[#found + 1] = { record_of(stored), ms(tonumber(members[n + 1])), redis.call('HGET', KEYS[3], members[n]) or '0' }
  end
end
return found
