-- swap.lua: replace a record if it still has the generation and version we read, and move all that stands beside it.
--
-- KEYS[1]  meta               KEYS[2]  curfew:{07}:job:<key>  string: see prelude.lua
-- KEYS[3..13]  see place.lua  KEYS[14] suppressed, set of "<tenant>/<recipient>" and "/<recipient>" for all tenants
-- ARGV[1..5]  see prelude.lua
-- ARGV[6]  key      ARGV[7]  tenant      ARGV[8]  the record, as stored     ARGV[9]  index, or "", and  ARGV[10] ms of its timer
-- ARGV[11] its next time in ms, or ""    ARGV[12] horizon in s              ARGV[13] "delete" or "keep" the letter
-- ARGV[14] history entry, or ""          ARGV[15] when it expires in ms, or "" while it is live
-- ARGV[16] expected generation and version, 12 bytes                        ARGV[17] counter, or "", that must be below  ARGV[18]
-- ARGV[19..]  guards in pairs: "not_before" ms, "before" ms, "not_member" name
--
-- Returns  {"swapped", n}         written, or found written by this very call before (a lost reply); n: entries of its history, 0 where found
--          {"conflict", record}   somebody else was first: this stands
--          {"missing"}            no such record: the caller must not send
--          {"refused", n}         guard n, counted from 1
--          {"full"}               the counter isn't below its bound
--          {"other_server"}  {"other_incarnation"}  {"recovering"}
--
-- Why a script: record, timer, line, counters and history move together (L3), and there is no rollback: everything is checked before the first write.

local refused, recovering, truly = barrier()
if refused then return { refused } end
local stored = redis.call('GET', KEYS[2])
if not stored then return { 'missing' } end
if fence_of(stored) ~= ARGV[16] then
  if stored == ARGV[8] then return { 'swapped', 0 } end
  return { 'conflict', record_of(stored) }
end

-- While its shard recovers nothing is released, claimed or intended; what owners report of what they hold is taken.
local before, after = counters_of(stored), counters_of(ARGV[8])
local state, state_before = state_of(after), state_of(before)
if recovering and (state == 'queued' or state == 'claimed' or state == 'handoff') and state_before ~= state then
  return { 'recovering' }
end
-- What a job that waits or is claimed becomes, recovery alone decides: an operator's verb or a give-back would pass for what a worker proved.
if truly and state and state ~= 'sent' and state_before ~= 'handoff' and not (state == 'dead_letter' and state_before == 'dead_letter') then
  return { 'recovering' }
end

for n = 19, #ARGV, 2 do
  local kind, value = ARGV[n], ARGV[n + 1]
  local holds
  if kind == 'not_before' then holds = now_ms() >= tonumber(value)
  elseif kind == 'before' then holds = now_ms() < tonumber(value)
  elseif kind == 'not_member' then holds = redis.call('SISMEMBER', KEYS[14], value) == 0
  else holds = false
  end
  if not holds then return { 'refused', (n - 17) / 2 } end
end
if ARGV[17] ~= '' and tonumber(redis.call('HGET', KEYS[10], ARGV[17]) or 0) >= tonumber(ARGV[18]) then return { 'full' } end

local key, tenant, expires_at = ARGV[6], ARGV[7], ARGV[15]
if expires_at ~= '' then
  redis.call('SET', KEYS[2], ARGV[8], 'PXAT', expires_at)
  redis.call('ZADD', KEYS[12], expires_at, key)
  redis.call('DEL', KEYS[4]) -- the book has the story
else
  redis.call('SET', KEYS[2], ARGV[8])
  if standing_of(stored) ~= 'L' then -- a late acceptance: it owes something again, and nothing live expires (L4)
    redis.call('ZREM', KEYS[12], key)
    redis.call('PERSIST', KEYS[4])
  end
end
local entries = 0
if ARGV[14] ~= '' then
  entries = redis.call('RPUSH', KEYS[4], ARGV[14])
  if expires_at ~= '' then redis.call('PEXPIREAT', KEYS[4], expires_at) end
end
if ARGV[13] == 'delete' then redis.call('DEL', KEYS[3]) end
move_counts(before, after)
set_timer(key, ARGV[9], ARGV[10], state_before)
set_line(key, tenant, ARGV[11], tonumber(ARGV[12]), state_before)
return { 'swapped', entries }
