-- walk.lua: the records of a shard after a key, by key, with their timers and places in line.
--
-- KEYS[1]  meta   KEYS[2]  all   KEYS[3]  watch   KEYS[4]  settle   KEYS[5]  review   KEYS[6]  postponed
-- KEYS[7]  the prefix of jobs    KEYS[8]  the prefix of lines, both in the same slot
-- ARGV[1..5]  see prelude.lua   ARGV[6]  "-" or "(key"   ARGV[7]  at most so many, 1,000 or fewer
--
-- Returns  {"found", {key, record or "" where its front is cut off, timer's ms or "", postponed, line's ms or ""}, …}  {"other_server"}  {"other_incarnation"}

local refused = barrier()
if refused then return { refused } end
local found, after, limit = { 'found' }, ARGV[6], tonumber(ARGV[7])
while #found <= limit do
  local keys = redis.call('ZRANGE', KEYS[2], after, '+', 'BYLEX', 'LIMIT', 0, limit)
  for _, key in ipairs(keys) do
    local stored = redis.call('GET', KEYS[7] .. key) -- nil: a tombstone whose time is over
    if stored and #found <= limit then
      local timer = redis.call('ZSCORE', KEYS[3], key) or redis.call('ZSCORE', KEYS[4], key) or redis.call('ZSCORE', KEYS[5], key)
      local line = redis.call('ZSCORE', KEYS[8] .. key:match('^[^/]*'), key)
      found[#found + 1] = {
        key, #stored > 15 and record_of(stored) or '', timer and ms(tonumber(timer)) or '', redis.call('HGET', KEYS[6], key) or '0', line and ms(tonumber(line)) or '',
      }
    end
  end
  if #keys < limit then break end
  after = '(' .. keys[#keys]
end
return found
