-- create.lua: write the first version of a generation, unless something stands there that doesn't give way.
--
-- KEYS[1]  meta               KEYS[2]  curfew:{07}:job:<key>  string: see prelude.lua
-- KEYS[3..13]  see place.lua  KEYS[14] all, sorted set of every key, all scores 0
-- ARGV[1..5]  see prelude.lua
-- ARGV[6]  key      ARGV[7]  tenant      ARGV[8]  the record, as stored     ARGV[9]  index and  ARGV[10] ms of its timer
-- ARGV[11] its next time in ms, or ""    ARGV[12] horizon in s              ARGV[13] the sealed letter   ARGV[14] history entry, or ""
-- ARGV[15] the ledger's time before the book was read, ms                   ARGV[16] the age that a read may have, ms
-- ARGV[17] from recovery's own hands: the fence of an earlier generation that gives way in whatever state it is, or nothing
--
-- Returns  {"created"}
--          {"exists", record}            this generation stands there already
--          {"earlier_unclosed", record}  an earlier one that isn't a recorded dead letter
--          {"higher_generation"}  {"stale_read"}  {"other_server"}  {"other_incarnation"}  {"recovering"}
--
-- SET NX comes first: of all callers one gets the key. Where a check then refuses, the key goes again before anybody could have seen it: a script
-- is alone. Repeating is free: who comes again is told what stands there.

local fresh = redis.call('SET', KEYS[2], ARGV[8], 'NX')
local refused, recovering = barrier()
if not refused and recovering then refused = 'recovering' end
-- A read that lies as far ahead is from before the clock was set back: nobody can say how old it is.
if not refused and math.abs(now_ms() - tonumber(ARGV[15])) > tonumber(ARGV[16]) then refused = 'stale_read' end
if refused then
  if fresh then redis.call('DEL', KEYS[2]) end
  return { refused }
end

local key, tenant, before = ARGV[6], ARGV[7], ''
if not fresh then
  local stored = redis.call('GET', KEYS[2])
  local ours, theirs = generation_of(ARGV[8]), generation_of(stored)
  if theirs > ours then return { 'higher_generation' } end
  if theirs == ours then return { 'exists', record_of(stored) } end
  local gives_way = standing_of(stored) == 'R' or ARGV[4] == 'recovery' and fence_of(stored) == ARGV[17]
  if not gives_way then return { 'earlier_unclosed', record_of(stored) } end
  before = counters_of(stored)
  redis.call('SET', KEYS[2], ARGV[8])
  redis.call('ZREM', KEYS[12], key)
end
redis.call('SET', KEYS[3], ARGV[13])
redis.call('DEL', KEYS[4])
if ARGV[14] ~= '' then redis.call('RPUSH', KEYS[4], ARGV[14]) end
redis.call('ZADD', KEYS[14], 0, key)
move_counts(before, counters_of(ARGV[8]))
set_timer(key, ARGV[9], ARGV[10], state_of(before))
set_line(key, tenant, ARGV[11], tonumber(ARGV[12]), state_of(before))
return { 'created' }
