import { latestStartMs } from '../../../ground/time/clock.js'
import { MAX_USED } from '../../algorithm.js'
import { LONGEST_DRAIN_MS, TAKEN_MODULUS } from '../../bucket.js'

/**
 * The script advances counters, each by a group of checks of one limit and cost, by the rules of `limiter/`. It returns
 * each counter as it was stored before (nothing for a new one), from which the pure algorithm decides the group. A counter
 * that cannot be advanced, since its key holds something else, is answered by a list with the error.
 *
 * `KEYS`: the counters. `ARGV`: now; then for each counter one text with the algorithm's letter, the period, the limit,
 * the cost, and the number of checks, -1 where the cost is taken in any case. It mostly equals that of the previous counter, and is then not parsed again. A
 * capital letter settles the counter instead; the numbers of `settledNumbers` follow. `w` before the letter is for several windows: the cost and the number of checks
 * follow, then each window's period, start and limit. `c` has the period, the limit, the cost, and the identity of each
 * check's permits, and is answered by how many are taken; `C` has the cost and the identity of what is given back.
 *
 * The stored numbers are integers, the period first: `f` has the window's start and its count; `s` the cell's start,
 * the time of the last check, and the use of the previous cell and of this one; `t` and `l` the time of the last check,
 * the limit at which the bucket drains, what is in use, its fraction over the period, and what has been taken in all.
 * Several windows stand behind a `w`, separated by bars.
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
local byte, find, gmatch, gsub, sub = string.byte, string.find, string.gmatch, string.gsub, string.sub
local max, min, abs = math.max, math.min, math.abs
local LIST = byte('w')
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
  if checks < 0 then return checks end
  local room = limit - in_use
  if checks == 0 or cost > room then return 0 end
  return min(checks, (room - fmod(room, cost)) / cost)
end

local function numbers_of(first, ...)
  if first == nil then return end
  return tonumber(first), numbers_of(...)
end

-- Returns the numbers stored for this period, or nothing.
local function numbers_for(stored, period)
  if not stored then return end
  local was_period, a, b, c, d, e = match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+) ?(%S*)$')
  if tonumber(was_period) == period then return tonumber(a), tonumber(b), tonumber(c), tonumber(d), tonumber(e) end
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
  current = min(${MAX_USED}, current + abs(admitted(in_use, limit, cost, checks)) * cost)
  store(key, cell + 2 * period, format('%.0f %.0f %.0f %.0f %.0f', period, cell, checked, previous, current))
end

-- Returns the time, the limit at which it drains, what is in use with its fraction, what has been taken in all, and what
-- is in use rounded up.
local function drained(period, limit, checked, drain, used, fraction, taken)
  if not checked or checked > latest_start(period) then
    checked, drain, used, fraction, taken = now, limit, 0, 0, 0
  end
  if now > checked then
    -- What is above the limit drains over several periods.
    local rest = fmod(now - checked, period)
    local wholes, part = product(drain, rest, period)
    used, fraction = used - (now - checked - rest) / period * drain - wholes, fraction - part
    checked = now
    if fraction < 0 then
      used, fraction = used - 1, fraction + period
    end
    if used < 0 then
      used, fraction = 0, 0
    end
  end
  return checked, drain, used, fraction, taken, used + (fraction > 0 and 1 or 0)
end

-- Returns the limit at which a bucket drains, what is in use, and what has been taken in all, after so many checks.
local function take(period, limit, drain, used, taken, granted, cost)
  local amount = abs(granted) * cost
  if amount == 0 then return max(drain, limit), used, taken end
  taken, drain, used = fmod(taken + amount, ${TAKEN_MODULUS}), max(1, limit), used + amount
  if granted < 0 then used = min(used, ${MAX_USED}, drain * (floor(${LONGEST_DRAIN_MS} / period) + 1)) end
  return drain, used, taken
end

local function bucket_lasts(period, checked, drain, used)
  return checked + max(period, used * period / max(1, drain))
end

local function bucket(key, stored, period, limit, cost, checks)
  local checked, drain, used, fraction, taken, in_use = drained(period, limit, numbers_for(stored, period))
  local granted = admitted(in_use, limit, cost, checks)
  drain, used, taken = take(period, limit, drain, used, taken, granted, cost)
  store(key, bucket_lasts(period, checked, drain, used), format('%.0f %.0f %.0f %.0f %.0f %.0f', period, checked, drain, used, fraction, taken))
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
  local keeps_ttl, granted, cost = was.listed, task.checks, task.cost
  for index, window in ipairs(task.windows) do
    local start = was[2 * index - 1]
    if start ~= window.text and not (start and goes_on(tonumber(start), window.start, window.period)) then
      was[2 * index - 1], was[2 * index], keeps_ttl = window.text, 0, false
    end
    granted = admitted(was[2 * index], window.limit, cost, granted)
  end
  for index = 2, 2 * #task.windows, 2 do was[index] = was[index] + abs(granted) * cost end
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

-- Returns the stored numbers of a window, of which there are so many, or nothing.
local function numbers_at(was, index, size)
  local first = size * (index - 1) + 1
  if was[first] then
    return tonumber(was[first]), tonumber(was[first + 1]), tonumber(was[first + 2]), tonumber(was[first + 3]),
      tonumber(was[first + 4])
  end
end

local function sliding_windows(key, was, task)
  local expires, granted, cost, numbers = 0, task.checks, task.cost, {}
  for index, window in ipairs(task.windows) do
    local period, first = window.period, 4 * index - 3
    local cell, checked, previous, current, in_use = slide(period, numbers_at(was, index, 4))
    numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3] = cell, checked, previous, current
    granted = admitted(in_use, window.limit, cost, granted)
    expires = max(expires, cell + 2 * period)
  end
  for last = 4, #numbers, 4 do numbers[last] = min(${MAX_USED}, numbers[last] + abs(granted) * cost) end
  store(key, expires, format(task.form, unpack(numbers)))
end

local function buckets(key, was, task)
  local expires, granted, cost, numbers = 0, task.checks, task.cost, {}
  for index, window in ipairs(task.windows) do
    local period, first = window.period, 5 * index - 4
    local checked, drain, used, fraction, taken, in_use = drained(period, window.limit, numbers_at(was, index, 5))
    numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3] = checked, drain, used, fraction
    numbers[first + 4] = taken
    granted = admitted(in_use, window.limit, cost, granted)
  end
  for index, window in ipairs(task.windows) do
    local period, first = window.period, 5 * index - 4
    local drain, used, taken = take(period, window.limit, numbers[first + 1], numbers[first + 2], numbers[first + 4], granted, cost)
    numbers[first + 1], numbers[first + 2], numbers[first + 4] = drain, used, taken
    expires = max(expires, bucket_lasts(period, numbers[first], drain, used))
  end
  store(key, expires, format(task.form, unpack(numbers)))
end

local LISTED = { f = fixed_windows, s = sliding_windows, t = buckets, l = buckets }

-- Parses the task for several windows. The format has the periods, and a specifier for each other number; 'all' matches a stored
-- text with these windows, and 'one' a single window of it.
local function parse_windows(text)
  local letter, cost, checks, list = match(text, '^w(%a) (%S+) (%S+) (.+)$')
  local others = letter == 'f' and ' %s %.0f' or letter == 's' and ' %.0f %.0f %.0f %.0f' or ' %.0f %.0f %.0f %.0f %.0f'
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
local function settle_fixed_window(stored, cost, start)
  local period, was_start, count = match(stored, '^(%S+) (%S+) (%S+)')
  if was_start ~= start then return end
  return format('%s %s %.0f', period, was_start, max(0, tonumber(count) - cost))
end

local function settle_sliding_window(stored, cost, mark)
  local period, cell, checked, previous, current = match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+)')
  local left = tonumber(mark) - tonumber(cell)
  if left == tonumber(period) then previous = max(0, tonumber(previous) - cost) end
  if left == 2 * tonumber(period) then current = max(0, tonumber(current) - cost) end
  return format('%s %s %s %.0f %.0f', period, cell, checked, previous, current)
end

local function settle_bucket(stored, cost, mark, was_checked, limit)
  local period, checked, drain, used, fraction, taken = numbers_of(match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+)'))
  local since = fmod(taken - mark + ${TAKEN_MODULUS}, ${TAKEN_MODULUS})
  if used - cost >= since then
    used = used - cost
  else
    local elapsed = max(0, checked - was_checked)
    local rest = fmod(elapsed, period)
    local wholes, part = product(limit, rest, period)
    wholes = wholes + (elapsed - rest) / period * limit
    if drain ~= limit or wholes >= cost then return end
    used, fraction = used - cost + wholes, fraction + part
    if fraction >= period then
      used, fraction = used + 1, fraction - period
    end
    if used < 0 then
      used, fraction = 0, 0
    end
  end
  return format('%.0f %.0f %.0f %.0f %.0f %.0f', period, checked, drain, used, fraction, taken)
end

local SETTLE = { F = settle_fixed_window, S = settle_sliding_window, T = settle_bucket, L = settle_bucket }

local function settle(key, task)
  local stored = call('GET', key)
  if not stored then return end
  local settle_window, became = SETTLE[sub(task, 1, 1)], stored
  for cost, period, mark, checked, limit in gmatch(task, ' (%S+) (%S+) (%S+) (%S+) (%S+)') do
    became = gsub(became, '[^w|]+', function(window)
      if match(window, '^%S+') == period then
        return settle_window(window, tonumber(cost), mark, tonumber(checked), tonumber(limit))
      end
    end)
  end
  if became ~= stored then call('SET', key, became, 'KEEPTTL') end
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

local OTHERS = { [byte('c')] = take_permits, [byte('C')] = give_permits_back }
for letter in pairs(SETTLE) do OTHERS[byte(letter)] = settle end

local ADVANCE = { f = fixed_window, s = sliding_window, t = bucket, l = bucket }
local parsed, task, letter, period, limit, cost, checks

local function advance(key, text)
  if parsed ~= text then
    parsed = text
    letter, period, limit, cost, checks = match(parsed, '^(%a) (%S+) (%S+) (%S+) (%S+)$')
    period, limit, cost, checks = tonumber(period), tonumber(limit), tonumber(cost), tonumber(checks)
    if letter == nil then
      task = parse_windows(parsed)
      cost, checks = task.cost, task.checks
    end
  end
  local stored = call('GET', key)
  -- A look creates no counter.
  if not stored and cost * checks == 0 then return stored end
  if letter == nil then
    task.advance(key, stored_windows(stored, task), task)
  else
    -- Where there were several windows, the policy has one now.
    stored = find_window(stored, period)
    ADVANCE[letter](key, stored, period, limit, cost, checks)
  end
  return stored
end

-- Returns whether an error is about what one key holds: a value of another type, or of another form.
local function is_own(message)
  for _, sign in ipairs({ 'WRONGTYPE', 'attempt to ', 'bad argument ', 'out of range', 'invalid expire' }) do
    if find(message, sign, 1, true) then return true end
  end
end

local answers = {}
for index, key in ipairs(KEYS) do
  local text = ARGV[index + 1]
  local done, answer = pcall(OTHERS[byte(text)] or advance, key, text)
  if not done then
    -- Redis 7 makes a text of it.
    local message = type(answer) == 'table' and answer.err or tostring(answer)
    if not is_own(message) then return { err = message } end
    answer = { message }
  end
  answers[index] = answer or false
end
return answers
`
