import { createHash } from 'node:crypto'
import type { RedisClient } from '../db/redis.js'

/**
 * Advances one counter by a group of checks of one limit and cost, by the rules of `limiter/`, and answers what was
 * stored before (nothing for a new counter): from that the group is answered by the algorithm itself.
 *
 * `KEYS[1]`: the counter. `ARGV`: the algorithm's letter, now, period, limit, cost, and how many checks are asked for.
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
local now, period, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local cost, asked = tonumber(ARGV[5]), tonumber(ARGV[6])
local stored = redis.call('GET', KEYS[1])
local was_period, a, b, c, d
if stored then
  was_period, a, b, c, d = string.match(stored, '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
end
local goes_on = tonumber(was_period) == period

local function product(factor, other)
  local low = math.fmod(factor, 65536)
  local high = (factor - low) / 65536 * other
  local high_rest = math.fmod(high, period)
  local rest = high_rest * 65536 + low * other
  local remainder = math.fmod(rest, period)
  return (high - high_rest) / period * 65536 + (rest - remainder) / period, remainder
end

local function admitted(in_use)
  local room = limit - in_use
  if asked == 0 or cost > room then return 0 end
  return math.min(asked, (room - math.fmod(room, cost)) / cost)
end

local expires
if ARGV[1] == 'f' then
  local start, count = math.floor(now / period) * period, 0
  if goes_on and a >= start then
    start, count = a, b
  end
  expires = start + period
  a, b, c, d = start, count + cost, 0, 0
elseif ARGV[1] == 's' then
  local cell, checked, previous, current = math.floor(now / period) * period, now, 0, 0
  if goes_on and a >= cell then
    cell, checked, previous, current = a, math.max(now, b), c, d
  elseif goes_on and a + period == cell then
    previous = d
  end
  local overlapping, part = product(previous, cell + period - checked)
  if part > 0 then overlapping = overlapping + 1 end
  expires = cell + 2 * period
  a, b, c, d = cell, checked, previous, current + admitted(current + overlapping) * cost
else
  local checked, drain, used, fraction = now, limit, 0, 0
  if goes_on then
    checked, drain, used, fraction = a, b, c, d
  end
  if now > checked then
    local wholes, part = product(drain, math.min(now - checked, period))
    checked, used, fraction = now, used - wholes, fraction - part
    if fraction < 0 then
      used, fraction = used - 1, fraction + period
    end
    if used < 0 then
      used, fraction = 0, 0
    end
  end
  local granted = admitted(used + (fraction > 0 and 1 or 0))
  drain = granted > 0 and limit or math.max(drain, limit)
  expires = checked + period
  a, b, c, d = checked, drain, used + granted * cost, fraction
end

local numbers = string.format('%.0f %.0f %.0f %.0f %.0f', period, a, b, c, d)
redis.call('SET', KEYS[1], numbers, 'PX', string.format('%.0f', expires + GRACE_MS - now))
return was_period and stored
`
const SHA = createHash('sha1').update(SCRIPT).digest('hex')

/** One run of the script: its key, and then its arguments. */
export type ScriptCall = readonly [key: string, ...rest: (string | number)[]]

/**
 * Runs the script once per call, all sent together, and answers what each returned.
 *
 * @throws the error of any call; others may have been carried out nevertheless
 */
export async function runScript(client: RedisClient, calls: readonly ScriptCall[]): Promise<unknown[]> {
  // The nodes of a cluster are sent their calls one by one, so that each finds its way when slots are moving.
  if (client.isCluster || calls.length === 1) return Promise.all(calls.map((call) => runOnce(client, call)))
  const results = await client.pipeline(calls.map((call) => ['evalsha', SHA, 1, ...call])).exec()
  if (results?.length !== calls.length) throw new Error('Redis did not answer every command')
  const answers = results.map(([, answer]) => answer)
  const unknown: number[] = []
  for (const [place, [error]] of results.entries()) {
    if (isUnknownScript(error)) unknown.push(place)
    else if (error !== null) throw error
  }
  // The first run that names the whole script makes it known to the others.
  for (const [index, place] of unknown.entries()) {
    const call = calls[place]
    if (call !== undefined) answers[place] = await (index === 0 ? runWhole(client, call) : runOnce(client, call))
  }
  return answers
}

async function runOnce(client: RedisClient, call: ScriptCall): Promise<unknown> {
  try {
    return await client.evalsha(SHA, 1, ...call)
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    return runWhole(client, call)
  }
}

function runWhole(client: RedisClient, call: ScriptCall): Promise<unknown> {
  return client.eval(SCRIPT, 1, ...call)
}

/** The server was started anew, or told to forget its scripts. */
function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}
