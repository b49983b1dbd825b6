import type { Database } from '../../src/database/database.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { eventValues, insertEventsSql, type RateLimitEvent, valuesOfAlike } from '../../src/log/event.js'
import { createRandom } from '../random.js'

const LOG_DAYS = 30
const KEYS = 200_000
const RULES = 20
const PATHS_PER_RULE = 3
const METHODS = ['GET', 'GET', 'GET', 'POST'] as const
const BLOCKED_SHARE = 0.1
/** The combinations of a path and a rule in the even log. */
const EVEN_COMBINATIONS = 1_000
/** Events are created faster than they are written: large batches keep the filling short. */
const FILL_BATCH = 2_000

/** `skewed`: few clients and paths have most of the requests; `even`: all have as many requests and refusals. */
export const DISTRIBUTIONS = ['skewed', 'even'] as const
export type Distribution = (typeof DISTRIBUTIONS)[number]

/** The clients whose rows weigh many in the skewed log: as in a flood, which collapses to few rows a second. */
const BUSIEST = 10

function harmonic(count: number): number {
  let sum = 0
  for (let rank = 1; rank <= count; rank++) sum += 1 / rank
  return sum
}

/** Creates a generator of numbers below `count`, the n-th 1/n as often as the first. */
function createZipf(count: number, random: () => number): () => number {
  const cumulated = new Float64Array(count)
  let sum = 0
  for (let rank = 1; rank <= count; rank++) {
    sum += 1 / rank
    cumulated[rank - 1] = sum
  }
  return function zipf() {
    const aim = random() * sum
    let [low, high] = [0, count - 1]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((cumulated[middle] ?? 0) < aim) low = middle + 1
      else high = middle
    }
    return low
  }
}

/**
 * Creates events as an API with 20 rules would log them: a tenth is blocked, and few of 200,000 clients make most of
 * the requests, each under one rule. The even ones have 1,000 combinations of path and rule in every hour, and as many
 * refusals of every client.
 */
export function createEvents(seed: number, distribution: Distribution): (timestampMs: number) => RateLimitEvent {
  const random = createRandom(seed)
  const isEven = distribution === 'even'
  const client = isEven ? () => Math.floor(random() * KEYS) : createZipf(KEYS, random)
  return function makeEvent(timestampMs) {
    const number = client()
    const address = `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`
    const rule = number % RULES
    const path =
      rule + RULES * Math.floor(isEven ? random() * (EVEN_COMBINATIONS / RULES) : random() ** 2 * PATHS_PER_RULE)
    const blocked = random() < BLOCKED_SHARE
    return {
      timestampMs,
      key: rule === 0 ? `ip:${address}` : `rule:rule-${rule}:${address}`,
      ruleName: rule === 0 ? '' : `rule-${rule}`,
      path: `/api/v1/resource-${path}`,
      method: METHODS[path % METHODS.length] ?? 'GET',
      allowed: !blocked,
      count: blocked ? 101 : 1 + Math.floor(random() * 100),
      limit: 100,
      ipAddress: '10.0.0.1',
      userId: null,
      clientIp: address,
      client: `ip:${address}`,
      policy: rule === 0 ? 'default' : `rule-${rule}`,
      outcome: blocked ? 'over_limit' : 'allowed',
      rules: '',
    }
  }
}

/**
 * Writes a number of rows, evenly over the last 30 days.
 *
 * @param weight how many requests a row stands for on average. In the skewed log only the rows of the busiest clients stand
 *   for more than one; in the even one all do, so that each refusal is a burst and an incident.
 */
export async function fillLog(
  database: Database,
  events: number,
  distribution: Distribution,
  nowMs: number,
  weight: number,
  onProgress: (written: number) => void,
): Promise<void> {
  const makeEvent = createEvents(events, distribution)
  const stepMs = (LOG_DAYS * DAY_MS) / events
  const startMs = nowMs - LOG_DAYS * DAY_MS
  const { dialect } = database
  const sql = insertEventsSql(dialect)
  const busyWeight = Math.round(1 + ((weight - 1) * harmonic(KEYS)) / harmonic(BUSIEST))
  const busiest = new Set(Array.from({ length: BUSIEST }, (_, number) => `ip:10.0.0.${number}`))
  const weightOf = ({ client }: RateLimitEvent) => {
    if (distribution === 'even') return weight
    return busiest.has(client) ? busyWeight : 1
  }
  for (let written = 0; written < events; written += FILL_BATCH) {
    const rows = Array.from({ length: Math.min(FILL_BATCH, events - written) }, (_, index) => {
      const event = makeEvent(Math.floor(startMs + (written + index) * stepMs))
      return valuesOfAlike(eventValues(event), { ...event, weight: weightOf(event) })
    })
    // A transaction may take longer than a statement: filling so fast, the disk stalls now and then.
    await database.transaction([{ sql, parameters: [JSON.stringify(rows)] }])
    onProgress(written + rows.length)
  }
}
