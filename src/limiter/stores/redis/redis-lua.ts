import { latestStartMs } from '../../../ground/time/clock.js'

/**
 * The script advances counters, each by a group of checks of one limit and cost, by the rules of `limiter/`. It returns
 * each counter as it was stored before (nothing for a new one), from which the pure algorithm decides the group.
 *
 * `KEYS`: the counters. `ARGV`: now; then for each counter one text with the algorithm's letter, the period, the limit,
 * the cost, and the number of checks. It mostly equals that of the previous counter, and is then not parsed again. A
 * capital letter settles the counter instead; the last number is then when it forgets the use, with `F` the window's
 * start. `w` before the letter is for several windows: the cost and the number of checks follow, then each window's
 * period, start and limit. `c` has the period, the limit, the cost, and the identity of each check's permits, and is
 * answered by how many are taken; `C` has the cost and the identity of what is given back.
 *
 * The stored numbers are integers, the period first: `f` has the window's start and its count; `s` the cell's start,
 * the time of the last check, and the use of the previous cell and of this one; `t` and `l` the time of the last check,
 * the limit at which the bucket drains, what is in use, and its fraction over the period. Several windows stand behind a
 * `w`, separated by bars.
 *
 * Lua's numbers are doubles. No step exceeds 2^53: products are split at 2^16, and their remainder,
 * which `math.fmod` returns without rounding, is subtracted before they are divided.
 *
 * Permits are members of a sorted set, each with the moment at which it ends: the identity, with \`:2\` and so on where the
 * cost is above 1. The member \`p\` has the period, negative, so that it comes first and never ends.
 *
 * A counter expires some time after its usage is 0, so that a process whose clock is behind still finds it.
 */
export const SCRIPT = `
local GRACE_MS = 10000
local call, match, format, floor, fmod = redis.call, string.match, string.format, math.floor, math.fmod
local byte, gmatch, gsub, max, min, LIST = string.byte, string.gmatch, string.gsub, math.max, math.min, string.byte('w')
local now = tonumber(ARGV[1])

-- As 'latestStartMs': what begins later was written by a wrong clock, and is taken as none.
local function latest_start(period)
  return now + max(${latestStartMs(0)}, period)
end

local function goes_on(was_start, start, period)
  return was_start >= start and was_start <= latest_start(period)
end

local function store(key, expires, numbers)
  call('SET', key, numbers, 'PX', format('%.0f', expires + GRACE_MS - now))
end

local function fixed_window(key, stored, period, limit, cost)
  local start = floor(now / period) * period
  if stored then
    local was_period, was_start, count = match(stored, '^(%S+) (%S+) (%S+)')
    was_start = tonumber(was_start)
    if tonumber(was_period) == period and goes_on(was_start, start, period) then
      call('SET', key, format('%.0f %.0f %.0f', period, was_start, tonumber(count) + cost), 'KEEPTTL')
      return
    end
  end
  store(key, start + period, format('%.0f %.0f %.0f', period, start, cost))
end

local function product(factor, other, period)
  if factor < 65536 then
    local remainder = fmod(factor * other, period)
    return (factor * other - remainder) / period, remainder
  end
  local low = fmod(factor, 65536)
  local high = (factor - low) / 65536 * other
  local high_rest = fmod(high, period)
  local rest = high_rest * 65536 + low * other
  local remainder = fmod(rest, period)
  return (high - high_rest) / period * 65536 + (rest - remainder) / period, remainder
end

local function admitted(in_use, limit, cost, checks)
  local room = limit - in_use
  if checks == 0 or cost > room then return 0 end
  return min(checks, (room - fmod(room, cost)) / cost)
end

-- Returns the four numbers stored for this period, or nothing.
local function numbers_for(stored, period)
  if not stored then return end
  local was_period, a, b, c, d = match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  if tonumber(was_period) == period then return tonumber(a), tonumber(b), tonumber(c), tonumber(d) end
end

-- Returns the cell, the time, the use of both cells, and what is in use.
local function slide(period, was_cell, was_checked, was_previous, was_current)
  local cell, checked, previous, current = floor(now / period) * period, now, 0, 0
  if was_cell and goes_on(was_cell, cell, period) then
    cell, checked, previous, current = was_cell, max(now, was_checked), was_previous, was_current
  elseif was_cell and was_cell + period == cell then
    previous = was_current
  end
  local overlapping, part = product(previous, cell + period - checked, period)
  if part > 0 then overlapping = overlapping + 1 end
  return cell, checked, previous, current, current + overlapping
end

local function sliding_window(key, stored, period, limit, cost, checks)
  local cell, checked, previous, current, in_use = slide(period, numbers_for(stored, period))
  current = current + admitted(in_use, limit, cost, checks) * cost
  store(key, cell + 2 * period, format('%.0f %.0f %.0f %.0f %.0f', period, cell, checked, previous, current))
end

-- Returns the time, the limit at which it drains, what is in use with its fraction, and that rounded up.
local function drained(period, limit, checked, drain, used, fraction)
  if not checked or checked > latest_start(period) then
    checked, drain, used, fraction = now, limit, 0, 0
  end
  if now > checked then
    local wholes, part = product(drain, min(now - checked, period), period)
    checked, used, fraction = now, used - wholes, fraction - part
    if fraction < 0 then
      used, fraction = used - 1, fraction + period
    end
    if used < 0 then
      used, fraction = 0, 0
    end
  end
  return checked, drain, used, fraction, used + (fraction > 0 and 1 or 0)
end

local function bucket(key, stored, period, limit, cost, checks)
  local checked, drain, used, fraction, in_use = drained(period, limit, numbers_for(stored, period))
  local granted = admitted(in_use, limit, cost, checks)
  drain = granted > 0 and limit or max(drain, limit)
  used = used + granted * cost
  store(key, checked + period, format('%.0f %.0f %.0f %.0f %.0f', period, checked, drain, used, fraction))
end

-- Returns the window of this period as it is stored, where there are several, or false.
local function find_window(stored, period)
  if not stored or byte(stored) ~= LIST then return stored end
  for window in gmatch(stored, '[^w|]+') do
    if tonumber((match(window, '^%S+'))) == period then return window end
  end
  return false
end

local function fixed_windows(key, was, task)
  local keeps_ttl, cost = was.listed, task.cost
  for index, window in ipairs(task.windows) do
    local start = was[2 * index - 1]
    if start == window.text or start and goes_on(tonumber(start), window.start, window.period) then
      was[2 * index] = was[2 * index] + cost
    else
      was[2 * index - 1], was[2 * index], keeps_ttl = window.text, cost, false
    end
  end
  local text = format(task.form, unpack(was))
  if keeps_ttl then
    call('SET', key, text, 'KEEPTTL')
    return
  end
  local expires = 0
  for index, window in ipairs(task.windows) do
    -- A month is a little shorter.
    expires = max(expires, tonumber(was[2 * index - 1]) + window.period)
  end
  store(key, expires, text)
end

-- Returns the four stored numbers of a window, or nothing.
local function numbers_at(was, index)
  local first = 4 * index - 3
  if was[first] then
    return tonumber(was[first]), tonumber(was[first + 1]), tonumber(was[first + 2]), tonumber(was[first + 3])
  end
end

local function sliding_windows(key, was, task)
  local expires, granted, cost, numbers = 0, task.checks, task.cost, {}
  for index, window in ipairs(task.windows) do
    local period, first = window.period, 4 * index - 3
    local cell, checked, previous, current, in_use = slide(period, numbers_at(was, index))
    numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3] = cell, checked, previous, current
    granted = admitted(in_use, window.limit, cost, granted)
    expires = max(expires, cell + 2 * period)
  end
  for last = 4, #numbers, 4 do numbers[last] = numbers[last] + granted * cost end
  store(key, expires, format(task.form, unpack(numbers)))
end

local function buckets(key, was, task)
  local expires, granted, cost, numbers = 0, task.checks, task.cost, {}
  for index, window in ipairs(task.windows) do
    local period, first = window.period, 4 * index - 3
    local checked, drain, used, fraction, in_use = drained(period, window.limit, numbers_at(was, index))
    numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3] = checked, drain, used, fraction
    granted = admitted(in_use, window.limit, cost, granted)
    expires = max(expires, checked + period)
  end
  for index, window in ipairs(task.windows) do
    local drain = 4 * index - 2
    if granted > 0 or numbers[drain] < window.limit then numbers[drain] = window.limit end
    numbers[drain + 1] = numbers[drain + 1] + granted * cost
  end
  store(key, expires, format(task.form, unpack(numbers)))
end

local LISTED = { f = fixed_windows, s = sliding_windows, t = buckets, l = buckets }

-- Parses the task for several windows. The format has the periods, and a specifier for each other number; 'all' matches a stored
-- text with these windows, and 'one' a single window of it.
local function parse_windows(text)
  local letter, cost, checks, list = match(text, '^w(%a) (%S+) (%S+) (.+)$')
  local others = letter == 'f' and ' %s %.0f' or ' %.0f %.0f %.0f %.0f'
  local windows, forms = {}, {}
  for period, start, limit in gmatch(list, '(%S+) (%S+) (%S+)') do
    windows[#windows + 1] = { period = tonumber(period), text = start, start = tonumber(start), limit = tonumber(limit) }
    forms[#forms + 1] = period .. others
  end
  local form = 'w' .. table.concat(forms, '|')
  return {
    advance = LISTED[letter], cost = tonumber(cost), checks = tonumber(checks), windows = windows, form = form,
    all = '^' .. gsub(form, '%%[^ |]+', '([^ |]+)') .. '$',
    one = '^%S+' .. gsub(others, '%%[^ |]+', '([^ |]+)')
  }
end

-- Returns the stored numbers of the task's windows, none for a window that is not stored, and in 'listed' whether exactly
-- these windows are stored.
local function stored_windows(stored, task)
  local was = stored and { match(stored, task.all) } or {}
  was.listed = was[1] ~= nil
  if not was.listed then
    for position, window in ipairs(task.windows) do
      local found = find_window(stored, window.period)
      if found and tonumber((match(found, '^%S+'))) == window.period then
        local numbers = { match(found, task.one) }
        for index, number in ipairs(numbers) do was[#numbers * (position - 1) + index] = number end
      end
    end
  end
  return was
end

-- What settles a window returns it as it is then, or nothing where it does not change.
local function settle_fixed_window(stored, period, _, cost, start)
  local was_period, was_start, count = match(stored, '^(%S+) (%S+) (%S+)')
  if tonumber(was_period) ~= period or tonumber(was_start) ~= start then return end
  return format('%.0f %.0f %.0f', period, start, max(0, tonumber(count) - cost))
end

local function settle_sliding_window(stored, period, _, cost, forgotten)
  local cell, checked, previous, current = numbers_for(stored, period)
  if not cell then return end
  if forgotten == cell + period then previous = max(0, previous - cost) end
  if forgotten == cell + 2 * period then current = max(0, current - cost) end
  return format('%.0f %.0f %.0f %.0f %.0f', period, cell, checked, previous, current)
end

-- Time alone gives back to buckets.
local SETTLE = { F = settle_fixed_window, S = settle_sliding_window }

local function settle(key, letter, stored, ...)
  if not stored then return end
  local settlement = { ... }
  local text = gsub(stored, '[^w|]+', function(window) return SETTLE[letter](window, unpack(settlement)) end)
  if text ~= stored then call('SET', key, text, 'KEEPTTL') end
end

local function give_permits_back(key, task)
  local cost, permit = match(task, '^C (%S+) (%S+)$')
  call('ZREM', key, permit)
  for each = 2, tonumber(cost) do call('ZREM', key, permit .. ':' .. each) end
  if call('ZCARD', key) == 1 then call('DEL', key) end
end

-- Returns how many permits are taken of a counter of this period, and the moment of the counter.
local function permits_in_use(key, period)
  local was_period = call('ZSCORE', key, 'p')
  if not was_period then return 0, now end
  local last = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) - period
  if -tonumber(was_period) ~= period or last > latest_start(period) then
    call('DEL', key)
    return 0, now
  end
  local moment = max(now, last)
  call('ZREMRANGEBYSCORE', key, 0, format('%.0f', moment))
  local used = call('ZCARD', key) - 1
  if used == 0 then call('DEL', key) end
  return used, moment
end

local function take_permits(key, task)
  local period, limit, cost, permits = match(task, '^c (%S+) (%S+) (%S+)(.*)$')
  period, limit, cost = tonumber(period), tonumber(limit), tonumber(cost)
  local before, moment = permits_in_use(key, period)
  local used, ends = before, format('%.0f', moment + period)
  for permit in gmatch(permits, '%S+') do
    if used + cost > limit then break end
    if used == 0 then call('ZADD', key, format('-%.0f', period), 'p') end
    call('ZADD', key, ends, permit)
    for each = 2, cost do call('ZADD', key, ends, permit .. ':' .. each) end
    used = used + cost
  end
  if used > before then call('PEXPIRE', key, format('%.0f', moment + period + GRACE_MS - now)) end
  return before
end

local PERMITS = { [byte('c')] = take_permits, [byte('C')] = give_permits_back }

local ADVANCE = { f = fixed_window, s = sliding_window, t = bucket, l = bucket }
local parsed, task, letter, period, limit, cost, checks

local function advance(key, text)
  if parsed ~= text then
    parsed = text
    letter, period, limit, cost, checks = match(parsed, '^(%a) (%S+) (%S+) (%S+) (%S+)$')
    period, limit, cost, checks = tonumber(period), tonumber(limit), tonumber(cost), tonumber(checks)
    if letter == nil then task = parse_windows(parsed) end
  end
  local stored = call('GET', key)
  if letter == nil then
    task.advance(key, stored_windows(stored, task), task)
  elseif SETTLE[letter] then
    settle(key, letter, stored, period, limit, cost, checks)
  else
    -- Where there were several windows, the policy has one now.
    stored = find_window(stored, period)
    ADVANCE[letter](key, stored, period, limit, cost, checks)
  end
  return stored
end

local answers = {}
for index, key in ipairs(KEYS) do
  local text = ARGV[index + 1]
  answers[index] = (PERMITS[byte(text)] or advance)(key, text) or false
end
return answers
`
