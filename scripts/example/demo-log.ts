import { addressClient, createClient, isByAddress } from '../../src/clients/client.js'
import { countClient, underRule } from '../../src/clients/limit-client.js'
import type { Database } from '../../src/database/database.js'
import { DAY_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import type { Policy } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { eventValues, insertEventsSql, type RateLimitEvent } from '../../src/log/event.js'
import { foldAll } from '../../src/log/rollups/catch-up.js'
import { createRandom } from '../random.js'
import { DEMO_RULES, requestsWithin, STORY_DAYS, TRAFFIC, type Traffic } from './demo-story.js'

const BATCH = 2_000

interface Decided {
  readonly name: string
  readonly policy: Policy
  readonly countsUsers: boolean
}

/**
 * Writes the events of the story's past as the plugin would have logged them: its counters decide about each. They are
 * folded as they come, since a large fold keeps others waiting.
 */
export async function writeDemoLog(database: Database, defaultRate: string, startMs: number): Promise<void> {
  const sql = insertEventsSql(database.dialect)
  const decide = createDecide(defaultRate)
  const firstMinuteMs = startMs - STORY_DAYS * DAY_MS
  const random = createRandom(1)
  let rows: ReturnType<typeof eventValues>[] = []
  async function write(): Promise<void> {
    await database.transaction([{ sql, parameters: [JSON.stringify(rows)] }])
    await foldAll(database, startMs)
    rows = []
  }
  for (let minuteMs = firstMinuteMs; minuteMs < startMs; minuteMs += MINUTE_MS) {
    for (const { atMs, traffic } of requestsOfMinute(minuteMs, startMs, random)) {
      rows.push(eventValues(decide(traffic, atMs)))
    }
    if (rows.length >= BATCH) await write()
  }
  await write()
}

function requestsOfMinute(minuteMs: number, startMs: number, random: () => number) {
  const lengthMs = Math.min(MINUTE_MS, startMs - minuteMs)
  return TRAFFIC.flatMap((traffic) => {
    const requests = requestsWithin(traffic.perMinute(minuteMs, minuteMs - startMs), random)
    return Array.from({ length: requests }, () => ({ atMs: minuteMs + Math.floor(random() * lengthMs), traffic }))
  }).toSorted((one, other) => one.atMs - other.atMs)
}

/** Creates the function that decides about a request of the past and returns its event. */
function createDecide(defaultRate: string) {
  const store = new MemoryStore()
  const rules = DEMO_RULES.map(({ name, rate, method, pathPattern, key }) => ({
    method,
    path: new RegExp(pathPattern),
    decided: { name, policy: toPolicy('fixed_window', parseRate(rate)), countsUsers: key === 'user' },
  }))
  const byDefault = { name: '', policy: toPolicy('fixed_window', parseRate(defaultRate)), countsUsers: false }

  return function decide({ address, user, method, path }: Traffic, timestampMs: number): RateLimitEvent {
    const rule = rules.find((each) => each.method === method && each.path.test(path))
    const { name, policy, countsUsers }: Decided = rule?.decided ?? byDefault
    const client =
      countsUsers && user !== null ? createClient({ name: 'user', value: String(user) }) : addressClient(address)
    const byLimit = countClient(client)
    const counted = name === '' ? byLimit : underRule(name, byLimit)
    const { allowed, count, limit } = store.checkOne({ key: counted.counter, policy, cost: 1 }, timestampMs)
    return {
      timestampMs,
      key: counted.key,
      ruleName: name,
      path,
      method,
      allowed,
      count,
      limit,
      ipAddress: address,
      userId: user,
      clientIp: isByAddress(client) ? address : null,
      client: client.text,
      policy: name || 'default',
      outcome: allowed ? 'allowed' : 'over_limit',
      rules: '',
    }
  }
}
