-- lines.lua: heads of lines whose time has come, round robin over tenants: everybody's first, the longest waiting before the others, then everybody's second.
--
-- KEYS[1]  meta   KEYS[2]  tenants   KEYS[3]  the prefix of lines   KEYS[4]  the prefix of jobs, both in the same slot
-- ARGV[1..5]  see prelude.lua   ARGV[6]  now in ms   ARGV[7]  at most of each tenant   ARGV[8]  at most in all, 1,000 or fewer
-- ARGV[9..]  tenants to pass over
--
-- Returns  {"found", {record, ms}, …}  {"other_server"}  {"other_incarnation"}  {"recovering"}
--
-- A tenant costs what is served of it: a hundred thousand jobs behind its head cost nothing. Only as many tenants are looked at as places are asked for.

local refused, recovering = barrier()
if refused or recovering then return { refused or 'recovering' } end
local limit, skip = tonumber(ARGV[8]), {}
for n = 9, #ARGV do skip[ARGV[n]] = true end

local due, met, step = {}, 0, 100
while #due < limit do
  local tenants = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[6], 'LIMIT', met, step)
  for _, tenant in ipairs(tenants) do
    if not skip[tenant] and #due < limit then due[#due + 1] = tenant end
  end
  met = met + #tenants
  if #tenants < step then break end
end

local heads = {}
for _, tenant in ipairs(due) do
  -- Nobody gets more places than are left once every other tenant has its first.
  local most = math.min(tonumber(ARGV[7]), limit - #due + 1)
  local members = redis.call('ZRANGEBYSCORE', KEYS[3] .. tenant, '-inf', ARGV[6], 'WITHSCORES', 'LIMIT', 0, most)
  for n = 1, #members, 2 do
    heads[#heads + 1] = { key = members[n], at = tonumber(members[n + 1]), place = (n + 1) / 2 }
  end
end
-- Written out, since Lua's sort isn't stable and its < on strings follows the server's locale: what is equal stays in the order it was read.
for n, head in ipairs(heads) do head.read = n end
table.sort(heads, function(a, b)
  if a.place ~= b.place then return a.place < b.place end
  if a.at ~= b.at then return a.at < b.at end
  return a.read < b.read
end)

local found = { 'found' }
for n = 1, math.min(limit, #heads) do
  local stored = redis.call('GET', KEYS[4] .. heads[n].key)
  if stored then found[#found + 1] = { record_of(stored), ms(heads[n].at) } end
end
return found
