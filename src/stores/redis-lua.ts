/**
 * The script advances counters, each by a group of checks of one limit and cost, by the rules of `limiter/`. It returns
 * each counter as it was stored before (nothing for a new one), from which the pure algorithm decides the group.
 *
 * `KEYS`: the counters. `ARGV`: now; then for each counter one text with the algorithm's letter, the period, the limit,
 * the cost, and the number of checks. It mostly equals that of the previous counter, and is then not parsed again. A
 * capital letter settles the counter instead; the last number is when it forgets the use. `w` before the letter is for
 * several windows: the cost and the number of checks follow, then each window's period, start, end and limit.
 *
 * The stored numbers are integers, the period first: `f` has the window's start and its count; `s` the cell's start,
 * the time of the last check, and the use of the previous cell and of this one; `t` and `l` the time of the last check,
 * the limit at which the bucket drains, what is in use, and its fraction over the period. Several windows stand behind a
 * `w`, separated by bars; a fixed one of them has its end as well, since months differ.
 *
 * Lua's numbers are doubles. No step exceeds 2^53: products are split at 2^16, as in `productSql`, and their remainder,
 * which `math.fmod` returns without rounding, is subtracted before they are divided.
 *
 * A counter expires some time after its usage is 0, so that a process whose clock is behind still finds it.
 */
export const SCRIPT = `
local GRACE_MS = 10000
local call, match, format, floor, fmod = redis.call, string.match, string.format, math.floor, math.fmod
local byte, gmatch, LIST = string.byte, string.gmatch, string.byte('w')
local now = tonumber(ARGV[1])

local function store(key, expires, numbers)
  call('SET', key, numbers, 'PX', format('%.0f', expires + GRACE_MS - now))
end

local function fixed_window(key, stored, period, limit, cost)
  local start = floor(now / period) * period
  if stored then
    local was_period, was_start, count = match(stored, '^(%S+) (%S+) (%S+)')
    was_start = tonumber(was_start)
    if tonumber(was_period) == period and was_start >= start then
      call('SET', key, format('%.0f %.0f %.0f', period, was_start, tonumber(count) + cost), 'KEEPTTL')
      return
    end
  end
  store(key, start + period, format('%.0f %.0f %.0f', period, start, cost))
end

local function product(factor, other, period)
  local low = fmod(factor, 65536)
  local high = (factor - low) / 65536 * other
  local high_rest = fmod(high, period)
  local rest = high_rest * 65536 + low * other
  local remainder = fmod(rest, period)
  return (high - high_rest) / period * 65536 + (rest - remainder) / period, remainder
end

local function admitted(in_use, limit, cost, asked)
  local room = limit - in_use
  if asked == 0 or cost > room then return 0 end
  return math.min(asked, (room - fmod(room, cost)) / cost)
end

-- Returns the four numbers stored for this period, or nothing.
local function numbers_of(stored, period)
  if not stored then return end
  local was_period, a, b, c, d = match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  if tonumber(was_period) == period then return tonumber(a), tonumber(b), tonumber(c), tonumber(d) end
end

-- Returns the cell, the time, the use of both cells, and what is in use.
local function slide(stored, period)
  local cell, checked, previous, current = floor(now / period) * period, now, 0, 0
  local was_cell, was_checked, was_previous, was_current = numbers_of(stored, period)
  if was_cell and was_cell >= cell then
    cell, checked, previous, current = was_cell, math.max(now, was_checked), was_previous, was_current
  elseif was_cell and was_cell + period == cell then
    previous = was_current
  end
  local overlapping, part = product(previous, cell + period - checked, period)
  if part > 0 then overlapping = overlapping + 1 end
  return cell, checked, previous, current, current + overlapping
end

local function sliding_window(key, stored, period, limit, cost, asked)
  local cell, checked, previous, current, in_use = slide(stored, period)
  current = current + admitted(in_use, limit, cost, asked) * cost
  store(key, cell + 2 * period, format('%.0f %.0f %.0f %.0f %.0f', period, cell, checked, previous, current))
end

-- Returns the time, the limit at which it drains, what is in use with its fraction, and that rounded up.
local function drained(stored, period, limit)
  local checked, drain, used, fraction = numbers_of(stored, period)
  if not checked then
    checked, drain, used, fraction = now, limit, 0, 0
  end
  if now > checked then
    local wholes, part = product(drain, math.min(now - checked, period), period)
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

local function bucket(key, stored, period, limit, cost, asked)
  local checked, drain, used, fraction, in_use = drained(stored, period, limit)
  local granted = admitted(in_use, limit, cost, asked)
  drain = granted > 0 and limit or math.max(drain, limit)
  used = used + granted * cost
  store(key, checked + period, format('%.0f %.0f %.0f %.0f %.0f', period, checked, drain, used, fraction))
end

-- Returns the window of this period as it is stored, where there are several, or false.
local function window_of(stored, period)
  if not stored or byte(stored) ~= LIST then return stored end
  for window in gmatch(stored, '[^w|]+') do
    if tonumber((match(window, '^%S+'))) == period then return window end
  end
  return false
end

local function fixed_windows(stored, windows, cost)
  local expires = 0
  for _, window in ipairs(windows) do
    local start, finish, count = window.start, window.finish, cost
    local was = window_of(stored, window.period)
    if was then
      local was_period, was_start, was_count, was_finish = match(was, '^(%S+) (%S+) (%S+) ?(%S*)$')
      was_period, was_start = tonumber(was_period), tonumber(was_start)
      if was_period == window.period and was_start >= start then
        start, count = was_start, tonumber(was_count) + cost
        finish = tonumber(was_finish) or was_start + was_period
      end
    end
    expires = math.max(expires, finish)
    window.numbers = format('%.0f %.0f %.0f %.0f', window.period, start, count, finish)
  end
  return expires
end

local function sliding_windows(stored, windows, cost, asked)
  local expires, granted = 0, asked
  for _, window in ipairs(windows) do
    window.cell, window.checked, window.previous, window.current, window.in_use =
      slide(window_of(stored, window.period), window.period)
    granted = math.min(granted, admitted(window.in_use, window.limit, cost, asked))
    expires = math.max(expires, window.cell + 2 * window.period)
  end
  for _, window in ipairs(windows) do
    window.numbers = format('%.0f %.0f %.0f %.0f %.0f',
      window.period, window.cell, window.checked, window.previous, window.current + granted * cost)
  end
  return expires
end

local function buckets(stored, windows, cost, asked)
  local expires, granted = 0, asked
  for _, window in ipairs(windows) do
    window.checked, window.drain, window.used, window.fraction, window.in_use =
      drained(window_of(stored, window.period), window.period, window.limit)
    granted = math.min(granted, admitted(window.in_use, window.limit, cost, asked))
    expires = math.max(expires, window.checked + window.period)
  end
  for _, window in ipairs(windows) do
    local drain = granted > 0 and window.limit or math.max(window.drain, window.limit)
    window.numbers = format('%.0f %.0f %.0f %.0f %.0f',
      window.period, window.checked, drain, window.used + granted * cost, window.fraction)
  end
  return expires
end

local LISTED = { f = fixed_windows, s = sliding_windows, t = buckets, l = buckets }

local function advance_windows(key, stored, asks)
  local letter, cost, asked, list = match(asks, '^w(%a) (%S+) (%S+) (.+)$')
  local windows = {}
  for period, start, finish, limit in gmatch(list, '(%S+) (%S+) (%S+) (%S+)') do
    windows[#windows + 1] = {
      period = tonumber(period), start = tonumber(start), finish = tonumber(finish), limit = tonumber(limit)
    }
  end
  local expires = LISTED[letter](stored, windows, tonumber(cost), tonumber(asked))
  local numbers = {}
  for place, window in ipairs(windows) do numbers[place] = window.numbers end
  store(key, expires, 'w' .. table.concat(numbers, '|'))
end

local function settled(key, numbers, ...)
  call('SET', key, format(numbers, ...), 'KEEPTTL')
end

local function settle_fixed_window(key, stored, period, _, cost, forgotten)
  if not stored then return end
  local was_period, start, count = match(stored, '^(%S+) (%S+) (%S+)')
  start = tonumber(start)
  if tonumber(was_period) ~= period or start + period ~= forgotten then return end
  settled(key, '%.0f %.0f %.0f', period, start, math.max(0, tonumber(count) - cost))
end

local function settle_sliding_window(key, stored, period, _, cost, forgotten)
  local cell, checked, previous, current = numbers_of(stored, period)
  if not cell then return end
  if forgotten == cell + period then previous = math.max(0, previous - cost) end
  if forgotten == cell + 2 * period then current = math.max(0, current - cost) end
  settled(key, '%.0f %.0f %.0f %.0f %.0f', period, cell, checked, previous, current)
end

local function settle_bucket(key, stored, period, limit, cost, forgotten)
  local checked, drain, used, fraction = numbers_of(stored, period)
  if drain ~= limit then return end
  local returned = math.min(cost, (product(limit, math.min(math.max(0, forgotten - checked), period), period)))
  if returned > used then fraction = 0 end
  settled(key, '%.0f %.0f %.0f %.0f %.0f', period, checked, drain, math.max(0, used - returned), fraction)
end

local ADVANCE = {
  f = fixed_window, s = sliding_window, t = bucket, l = bucket,
  F = settle_fixed_window, S = settle_sliding_window, T = settle_bucket, L = settle_bucket
}
local answers = {}
local parsed, letter, period, limit, cost, asked
for place, key in ipairs(KEYS) do
  if parsed ~= ARGV[place + 1] then
    parsed = ARGV[place + 1]
    letter, period, limit, cost, asked = match(parsed, '^(%a) (%S+) (%S+) (%S+) (%S+)$')
    period, limit, cost, asked = tonumber(period), tonumber(limit), tonumber(cost), tonumber(asked)
  end
  local stored = call('GET', key)
  if letter == nil then
    advance_windows(key, stored, parsed)
  elseif stored and byte(stored) == LIST then
    -- The policy has one window now. What is given back to one of several is forgotten.
    if letter == string.lower(letter) then
      stored = window_of(stored, period)
      ADVANCE[letter](key, stored, period, limit, cost, asked)
    end
  else
    ADVANCE[letter](key, stored, period, limit, cost, asked)
  end
  answers[place] = stored
end
return answers
`
