import { createHash } from 'node:crypto'
import type { RedisClient } from '../db/redis.js'

/**
 * Advances counters, each by a group of checks of one limit and cost, by the rules of `limiter/`, and answers what was
 * stored of each before (nothing for a new counter): from that the group is answered by the algorithm itself.
 *
 * `KEYS`: the counters. `ARGV`: now; then for each counter the algorithm's letter, the period, the limit, the cost, and
 * how many checks are asked for.
 *
 * Stored are five whole numbers, the period first: `f` has the window's start and its count (and two zeros); `s` the
 * cell's start, the time of the last check, and what was used in the cell before and in this one; `t` and `l` the time of
 * the last check, the limit at which time gives back, what is in use, and its fraction over the period.
 *
 * Numbers of Lua are doubles. No step leaves 2^53: products are split at 2^16, as in `productSql`, and their remainder,
 * which `math.fmod` gives without rounding, is taken away before they are divided.
 *
 * A counter expires some time after it means nothing any more, so that a process whose clock is behind still meets it.
 */
const SCRIPT = `
local GRACE_MS = 10000
local now = tonumber(ARGV[1])

local function product(factor, other, period)
  local low = math.fmod(factor, 65536)
  local high = (factor - low) / 65536 * other
  local high_rest = math.fmod(high, period)
  local rest = high_rest * 65536 + low * other
  local remainder = math.fmod(rest, period)
  return (high - high_rest) / period * 65536 + (rest - remainder) / period, remainder
end

local function admitted(in_use, limit, cost, asked)
  local room = limit - in_use
  if asked == 0 or cost > room then return 0 end
  return math.min(asked, (room - math.fmod(room, cost)) / cost)
end

local function advance(key, letter, period, limit, cost, asked)
  local stored = redis.call('GET', key)
  local was_period, a, b, c, d
  if stored then
    was_period, a, b, c, d = string.match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
    a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  end
  local goes_on = tonumber(was_period) == period
  local expires
  if letter == 'f' then
    local start, count = math.floor(now / period) * period, 0
    if goes_on and a >= start then
      start, count = a, b
    end
    expires = start + period
    a, b, c, d = start, count + cost, 0, 0
  elseif letter == 's' then
    local cell, checked, previous, current = math.floor(now / period) * period, now, 0, 0
    if goes_on and a >= cell then
      cell, checked, previous, current = a, math.max(now, b), c, d
    elseif goes_on and a + period == cell then
      previous = d
    end
    local overlapping, part = product(previous, cell + period - checked, period)
    if part > 0 then overlapping = overlapping + 1 end
    expires = cell + 2 * period
    a, b, c, d = cell, checked, previous, current + admitted(current + overlapping, limit, cost, asked) * cost
  else
    local checked, drain, used, fraction = now, limit, 0, 0
    if goes_on then
      checked, drain, used, fraction = a, b, c, d
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
    local granted = admitted(used + (fraction > 0 and 1 or 0), limit, cost, asked)
    drain = granted > 0 and limit or math.max(drain, limit)
    expires = checked + period
    a, b, c, d = checked, drain, used + granted * cost, fraction
  end

  local numbers = string.format('%.0f %.0f %.0f %.0f %.0f', period, a, b, c, d)
  redis.call('SET', key, numbers, 'PX', string.format('%.0f', expires + GRACE_MS - now))
  return was_period and stored or false
end

local stored = {}
for place, key in ipairs(KEYS) do
  local first = (place - 1) * 5 + 2
  stored[place] = advance(key, ARGV[first], tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2]),
    tonumber(ARGV[first + 3]), tonumber(ARGV[first + 4]))
end
return stored
`
const SHA = createHash('sha1').update(SCRIPT).digest('hex')

/** What the script is told of one counter: its key, the algorithm's letter, period, limit, cost, and how many are asked for. */
export type ScriptCall = readonly [key: string, letter: string, ...numbers: number[]]

/**
 * Advances the counters, and answers what was stored of each before.
 *
 * One run takes all counters, but for a cluster: its nodes are sent the counters one by one, so that each finds its way
 * also when slots are moving.
 *
 * @throws the error of any run; other counters may have been advanced nevertheless
 */
export async function runScript(
  client: RedisClient,
  calls: readonly ScriptCall[],
  nowMs: number,
): Promise<readonly unknown[]> {
  if (client.isCluster) return runOneByOne(client, calls, nowMs)
  try {
    return await runOnce(client, calls, nowMs)
  } catch (error) {
    if (!isAcrossSlots(error)) throw error
    return runOneByOne(client, calls, nowMs)
  }
}

async function runOneByOne(client: RedisClient, calls: readonly ScriptCall[], nowMs: number): Promise<unknown[]> {
  const answers = await Promise.all(calls.map((call) => runOnce(client, [call], nowMs)))
  return answers.flat()
}

async function runOnce(client: RedisClient, calls: readonly ScriptCall[], nowMs: number): Promise<unknown[]> {
  const given = [...calls.map(([key]) => key), nowMs, ...calls.flatMap(([, ...rest]) => rest)]
  let answers: unknown
  try {
    answers = await client.evalsha(SHA, calls.length, ...given)
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    answers = await client.eval(SCRIPT, calls.length, ...given)
  }
  if (!Array.isArray(answers) || answers.length !== calls.length) throw new Error('Redis did not answer for every key')
  return answers
}

/** The server was started anew, or told to forget its scripts. */
function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** What looks like one server is a proxy before a cluster. */
function isAcrossSlots(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('CROSSSLOT')
}
