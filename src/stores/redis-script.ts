import { createHash } from 'node:crypto'
import type { RedisClient } from '../db/redis.js'

/**
 * Advances one counter by a group of checks of one limit and cost, by the rules of `limiter/`, and answers what was
 * stored before (nothing for a new counter): from that the group is answered by the algorithm itself.
 *
 * `KEYS[1]`: the counter. `ARGV`: the algorithm's letter, now, period, limit, cost, and how many checks are asked for.
 *
 * Stored are whole numbers, the period first: `f` has the window's start and its count; `s` the cell's start, the time
 * of the last check, and what was used in the cell before and in this one; `t` and `l` the time of the last check, the
 * limit at which time gives back, what is in use, and its fraction over the period.
 *
 * Numbers of Lua are doubles. No step leaves 2^53: products are split at 2^16, as in `productSql`, and are divided by
 * their remainder first, which `math.fmod` gives without rounding.
 *
 * A counter expires some time after it means nothing any more, so that a process whose clock is behind still meets it.
 */
const SCRIPT = `
local GRACE_MS = 10000
local now, period, limit = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local cost, asked = tonumber(ARGV[5]), tonumber(ARGV[6])
local stored = redis.call('GET', KEYS[1])
local was = {}
for number in string.gmatch(stored or '', '%S+') do
  was[#was + 1] = tonumber(number)
end
local goes_on = was[1] == period

local function divide(product)
  local remainder = math.fmod(product, period)
  return (product - remainder) / period, remainder
end

local function product(a, b)
  local low = math.fmod(a, 65536)
  local high, high_rest = divide((a - low) / 65536 * b)
  local quotient, remainder = divide(high_rest * 65536 + low * b)
  return high * 65536 + quotient, remainder
end

local function admitted(in_use)
  local room = limit - in_use
  if asked == 0 or cost > room then return 0 end
  return math.min(asked, (room - math.fmod(room, cost)) / cost)
end

local function store(expires, ...)
  local numbers = { period, ... }
  for place, number in ipairs(numbers) do
    numbers[place] = string.format('%.0f', number)
  end
  local lifetime = string.format('%.0f', expires + GRACE_MS - now)
  redis.call('SET', KEYS[1], table.concat(numbers, ' '), 'PX', lifetime)
end

local function fixed_window()
  local start, count = math.floor(now / period) * period, 0
  if goes_on and was[2] >= start then
    start, count = was[2], was[3]
  end
  store(start + period, start, count + cost)
end

local function sliding_window()
  local cell, checked = math.floor(now / period) * period, now
  local previous, current = 0, 0
  if goes_on and was[2] >= cell then
    cell, checked, previous, current = was[2], math.max(now, was[3]), was[4], was[5]
  elseif goes_on and was[2] + period == cell then
    previous = was[5]
  end
  local overlapping, part = product(previous, cell + period - checked)
  if part > 0 then overlapping = overlapping + 1 end
  local granted = admitted(current + overlapping)
  store(cell + 2 * period, cell, checked, previous, current + granted * cost)
end

local function bucket()
  local checked, drain, used, fraction = now, limit, 0, 0
  if goes_on then
    checked, drain, used, fraction = was[2], was[3], was[4], was[5]
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
  end
  local granted = admitted(used + (fraction > 0 and 1 or 0))
  drain = granted > 0 and limit or math.max(drain, limit)
  store(checked + period, checked, drain, used + granted * cost, fraction)
end

local advance = { f = fixed_window, s = sliding_window, t = bucket, l = bucket }
advance[ARGV[1]]()
return stored
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
