-- permits.lua: a token bucket: permits come at a rate, a quarter of a second's worth is kept, or one and a tenth of a second's where that is more.
--
-- KEYS[1]  curfew:{permits:<name>}:bucket, hash: permits, at
-- ARGV[1]  permits per second, above 0   ARGV[2]  how many are wanted   ARGV[3]  "" for the node's own clock; tests give milliseconds
--
-- Returns  {"given", n, now in ms, ms until the next one where n is 0}
-- No identity is asked for: a rate that a server forgot gives what a full bucket holds too much.
-- Why a quarter: what a full bucket gives at once comes on top of the rate. A second's worth is a tenth too much in ten seconds.

local rate, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local full = math.max(rate / 4, 1 + rate / 10)
local kept = redis.call('HMGET', KEYS[1], 'permits', 'at')
local permits, at = tonumber(kept[1] or full), tonumber(kept[2] or now)
-- A clock that was put back by more than a jump (DESIGN 4): the bucket goes by it as it is now, or it gave nothing until that time has come.
if at - now > 2000 then at = now end
permits = math.min(full, permits + math.max(0, now - at) / 1000 * rate)
-- What is short of a whole one by less than rounding is whole: it comes when it was promised.
local given = math.min(wanted, math.floor(permits + 1e-9))
permits = permits - given
local wait = math.max(1, math.min(3600000, math.ceil((1 - permits) / rate * 1000 - 1e-6)))
redis.call('HSET', KEYS[1], 'permits', string.format('%.17g', permits), 'at', string.format('%.0f', math.max(at, now)))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.min(86400000, math.ceil(full / rate * 1000) + 60000)))
return { 'given', given, string.format('%.0f', now), string.format('%.0f', wait) }
