-- restore.lua: give a record the timer and the place in line that its state asks for; what is there stays.
--
-- KEYS[1]  meta   KEYS[2]  job   KEYS[3..13]  see place.lua
-- ARGV[1..5]  see prelude.lua
-- ARGV[6]  key   ARGV[7]  tenant   ARGV[8]  generation and version, 12 bytes   ARGV[9]  index, or "", and  ARGV[10] ms of the timer owed
-- ARGV[11] its next time in ms, or ""   ARGV[12] horizon in s
--
-- Returns  {"restored"}  {"nothing"}  {"other_server"}  {"other_incarnation"}  {"recovering"}

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
local stored = redis.call('GET', KEYS[2])
if not stored or fence_of(stored) ~= ARGV[8] then return { 'nothing' } end
local timed = false
for _, sorted_set in pairs(INDEXES) do
  if redis.call('ZSCORE', sorted_set, ARGV[6]) then timed = true end
end
local restored = false
if ARGV[9] ~= '' and not timed then
  set_timer(ARGV[6], ARGV[9], ARGV[10], nil)
  restored = true
end
if ARGV[11] ~= '' and not redis.call('ZSCORE', KEYS[8], ARGV[6]) then
  set_line(ARGV[6], ARGV[7], ARGV[11], tonumber(ARGV[12]), nil)
  restored = true
end
return { restored and 'restored' or 'nothing' }
