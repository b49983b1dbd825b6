import type { RateLimitClient } from '../../src/client.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/time/clock.js'

/** A part of the traffic of an invented shop. */
interface Source {
  readonly key: string
  readonly rule?: string
  readonly path: string
  readonly method?: string
  readonly limit: number
  /** Requests per hour at the busiest time of a day. */
  readonly hourly: number
  /** The share that is over the limit. */
  readonly over: number
  /** Whether requests over the limit are let through. */
  readonly onlyCounted?: boolean
  /** The days of the traffic, before now; all days by default. */
  readonly between?: readonly [fromDays: number, toDays: number]
}

const SOURCES: readonly Source[] = [
  { key: 'ip:198.51.100.23', path: '/api/products', limit: 100, hourly: 9, over: 0.25, between: [4, 0] },
  { key: 'user:1042', path: '/api/cart', limit: 100, hourly: 12, over: 0.06 },
  { key: 'user:2288', path: '/api/products', limit: 100, hourly: 14, over: 0 },
  { key: 'ip:192.0.2.17', path: '/', limit: 100, hourly: 10, over: 0.01 },
  { key: 'ip:203.0.113.200', path: '/assets/app.js', limit: 100, hourly: 11, over: 0.02 },
  { key: 'ip:2001:db8:85a3:8d3::/64', path: '/api/products', limit: 100, hourly: 6, over: 0.1 },
  {
    key: 'rule:login:203.0.113.7',
    rule: 'login',
    path: '/auth/login',
    method: 'POST',
    limit: 5,
    hourly: 30,
    over: 0.93,
    between: [1.6, 0.9],
  },
  {
    key: 'rule:login:198.51.100.99',
    rule: 'login',
    path: '/auth/login',
    method: 'POST',
    limit: 5,
    hourly: 3,
    over: 0.2,
  },
  {
    key: 'rule:api-writes:user:4711',
    rule: 'api-writes',
    path: '/api/orders',
    method: 'POST',
    limit: 20,
    hourly: 7,
    over: 0.3,
  },
  {
    key: 'rule:api-writes:user:1042',
    rule: 'api-writes',
    path: '/api/cart',
    method: 'PUT',
    limit: 20,
    hourly: 5,
    over: 0,
  },
  { key: 'rule:search:192.0.2.144', rule: 'search', path: '/api/search', limit: 30, hourly: 16, over: 0.09 },
  { key: 'rule:search:203.0.113.31', rule: 'search', path: '/api/search', limit: 30, hourly: 15, over: 0 },
  {
    key: 'rule:partner-api:pk_live_7f3a#9c1d',
    rule: 'partner-api',
    path: '/api/partner/stock',
    limit: 600,
    hourly: 13,
    over: 0.12,
    onlyCounted: true,
  },
]

/** More than twice the window of the pictures, which compare it with the time before. */
const DAYS = 15
const BATCH = 2_000

/** Logs the invented traffic up to now, the same in every run, so that pictures differ only where the page does. */
export async function logInventedTraffic(client: RateLimitClient, nowMs: number): Promise<void> {
  const random = randomNumbers()
  const startMs = Math.floor((nowMs - DAYS * DAY_MS) / HOUR_MS) * HOUR_MS
  const events = []
  for (let hourMs = startMs; hourMs < nowMs; hourMs += HOUR_MS) {
    for (const source of SOURCES) {
      const requests = isThere(source, nowMs - hourMs) ? Math.round(source.hourly * busyness(hourMs) * random() * 2) : 0
      for (let number = 0; number < requests; number++) {
        const timestampMs = hourMs + Math.floor(random() * 60) * MINUTE_MS
        const isOver = random() < source.over
        if (timestampMs < nowMs) events.push(toEvent(source, timestampMs, isOver, random()))
      }
    }
  }
  for (let first = 0; first < events.length; first += BATCH) {
    await client.rateLimitEvent.createMany({ data: events.slice(first, first + BATCH) })
  }
}

function toEvent(
  { key, rule = '', path, method = 'GET', limit, onlyCounted }: Source,
  ms: number,
  isOver: boolean,
  used: number,
) {
  return {
    timestamp: new Date(ms),
    key,
    ruleName: rule,
    path,
    method,
    allowed: !isOver || onlyCounted === true,
    count: isOver ? limit + 1 + Math.floor(used * limit) : Math.max(1, Math.ceil(used * limit)),
    limit,
    ...toClient(key),
  }
}

/** Returns the client of a key, as previews need it. */
function toClient(key: string): { clientIp?: string; ipAddress?: string; userId?: number } {
  const [, user] = /user:(\d+)$/.exec(key) ?? []
  if (user !== undefined) return { userId: Number(user) }
  const [, clientIp] = /^(?:ip|rule:[^:]+):([\d.]+|[\da-f:]+\/64)$/.exec(key) ?? []
  return clientIp === undefined ? {} : { clientIp, ipAddress: clientIp.replace(/\/64$/, '1') }
}

function isThere({ between: [fromDays, toDays] = [DAYS, 0] }: Source, agoMs: number): boolean {
  return agoMs <= fromDays * DAY_MS && agoMs >= toDays * DAY_MS
}

/** Returns the level of traffic: lowest at night, and rising slowly from day to day. */
function busyness(ms: number): number {
  return 0.65 + 0.35 * Math.sin((2 * Math.PI * (ms - 9 * HOUR_MS)) / DAY_MS) + 0.1 * Math.sin(ms / (5 * DAY_MS))
}

/** Creates a linear congruential generator of numbers from 0 to 1, the same in every run. */
function randomNumbers(): () => number {
  let state = 20_261_121
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
