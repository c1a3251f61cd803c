-- prelude.lua: stands in front of every script that touches a shard: who asks, what time it is, what a stored record says. It runs no command.
--
-- KEYS[1]  curfew:{07}:meta   hash: incarnation, run_id, replication_id, recovering
-- ARGV[1]  incarnation in which the errand began     ARGV[2]  run id     ARGV[3]  replication id, both as seen on this connection
-- ARGV[4]  "recovery" from recovery's own hands; "halted" from a process that distrusts this node's clock: the shard then is to it as one that
--          recovers; else ""
-- ARGV[5]  "" for the node's own clock; tests give milliseconds
--
-- A stored record: 4 bytes generation, 8 bytes version, both big-endian and compared as bytes (a Lua number ends at 2^53); 1 byte standing:
-- L live, R recorded dead letter, C closed otherwise; 2 bytes length of the counters' names; these names, parted by spaces; the record.

-- nil, or why this caller may not even look; whether the shard recovers, to this caller; and whether it does so truly. Whatever isn't a readable meta is somebody else's.
local function barrier()
  local meta = redis.pcall('HMGET', KEYS[1], 'incarnation', 'run_id', 'replication_id', 'recovering')
  if meta.err or meta[2] ~= ARGV[2] or meta[3] ~= ARGV[3] then return 'other_server', false end
  if meta[1] ~= ARGV[1] then return 'other_incarnation', false end
  -- Whoever recovers what is recovered already looked too long ago.
  if ARGV[4] == 'recovery' and meta[4] ~= '1' then return 'other_incarnation', false end
  local recovers = meta[4] == '1' and ARGV[4] ~= 'recovery'
  return nil, recovers or ARGV[4] == 'halted', recovers
end

-- Milliseconds by this node's clock, the same throughout a call.
local now
local function now_ms()
  if not now then
    now = tonumber(ARGV[5])
    if not now then
      local time = redis.call('TIME')
      now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    end
  end
  return now
end

-- Milliseconds as text: Lua's own would turn to 1.8e+12.
local function ms(number)
  return string.format('%.0f', number)
end

local function fence_of(stored) return stored:sub(1, 12) end
local function standing_of(stored) return stored:sub(13, 13) end
local function counters_of(stored) return stored:sub(16, 15 + stored:byte(14) * 256 + stored:byte(15)) end
local function record_of(stored) return stored:sub(16 + stored:byte(14) * 256 + stored:byte(15)) end
local function generation_of(stored) return struct.unpack('>I4', stored) end
