-- place.lua: a record's counters, timer and place in line, for the scripts that write. It runs no command by itself.
--
-- KEYS[3]  letter      KEYS[4]  history
-- KEYS[5]  watch       KEYS[6]  settle       KEYS[7]  review      sorted sets: key → ms
-- KEYS[8]  the tenant's line, sorted set: key → ms                KEYS[9]  tenants, sorted set: tenant → ms of the head of its line
-- KEYS[10] counts, hash                                           KEYS[11] due, sorted set: the next times of scheduled and queued records
-- KEYS[12] expiry, sorted set: key → ms                           KEYS[13] postponed, hash: key → how often

local INDEXES = { watch = KEYS[5], settle = KEYS[6], review = KEYS[7] }
-- Which of them holds the timer of a state (domain: transition.rs).
local INDEX_OF = {
  scheduled = 'watch', queued = 'watch', claimed = 'watch', handoff = 'watch', dead_letter = 'review', sent = 'settle', cancelled = 'settle',
  suppressed = 'settle',
}

-- The state that counters' names begin with; nil where the record is closed.
local function state_of(names)
  return names:match('^s:(%S+)')
end

-- Adds to one counter. "d:<ms>" counts a next time, which stands in `due` as long as anybody has it.
local function count(name, by)
  local left = redis.call('HINCRBY', KEYS[10], name, by)
  if left == 0 then redis.call('HDEL', KEYS[10], name) end
  if name:sub(1, 2) == 'd:' then
    if left <= 0 then redis.call('ZREM', KEYS[11], name:sub(3)) elseif left == by then redis.call('ZADD', KEYS[11], name:sub(3), name:sub(3)) end
  end
end

-- From the counters of one version to those of the next; what both count in stays as it is.
local function move_counts(before, after)
  local gone = {}
  for name in before:gmatch('%S+') do gone[name] = true end
  for name in after:gmatch('%S+') do
    if gone[name] then gone[name] = nil else count(name, 1) end
  end
  for name in pairs(gone) do count(name, -1) end
end

-- The one timer: in the index named, and no longer in that of the state before.
local function set_timer(key, index, at, before)
  for name, sorted_set in pairs(INDEXES) do
    if name ~= index and before and (INDEX_OF[before] or name) == name then redis.call('ZREM', sorted_set, key) end
  end
  if index ~= '' then redis.call('ZADD', INDEXES[index], at, key) end
  redis.call('HDEL', KEYS[13], key)
end

-- After any change of a line its tenant stands by the new head.
local function set_head(tenant)
  local head = redis.call('ZRANGE', KEYS[8], 0, 0, 'WITHSCORES')
  if head[2] then redis.call('ZADD', KEYS[9], head[2], tenant) else redis.call('ZREM', KEYS[9], tenant) end
end

-- When a job due at `due` must be met in its line: the largest rung that fits before that, or, under a second before it, at once (domain: rung.rs).
local function line_at(due, now, horizon_s)
  local left_s = math.min(math.floor((due - now) / 1000), horizon_s)
  if left_s < 1 then return math.min(due, now) end
  local rung_s = 1
  while rung_s * 2 <= left_s and rung_s < 64 do rung_s = rung_s * 2 end
  return due - rung_s * 1000
end

-- Into its line by its next time; or, where it stood in it, out of it.
local function set_line(key, tenant, due, horizon_s, before)
  if due ~= '' then
    redis.call('ZADD', KEYS[8], ms(line_at(tonumber(due), now_ms(), horizon_s)), key)
    set_head(tenant)
  elseif (before == 'scheduled' or before and not INDEX_OF[before]) and redis.call('ZREM', KEYS[8], key) == 1 then
    set_head(tenant)
  end
end
