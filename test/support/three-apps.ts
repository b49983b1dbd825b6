/** One fault of the database under three servers in mid-load, one for each `onStoreError`, and what they owe their clients. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { LogController } from 'fastify'
import { STORE_ERROR_ACTIONS, type StoreErrorAction } from '../../src/limiter/fallback.js'
import type { RateLimitClient } from '../../src/plugin/client/client.js'
import { atEnd } from './at-end.js'
import { captureLog, type LogLine, startApp, type TestApp, WARN } from './build-app.js'
import { type FakeClock, fakeClock } from './clock.js'
import { eventually } from './eventually.js'
import { p99Ms, type RequestStream, type Sample, type StreamClient, startRequestStream } from './request-stream.js'

/** Longer than a very busy machine takes to answer what is not broken. */
const STORE_TIMEOUT_MS = 3_000
/** Far above what answering takes: it says that nobody waits for the database, not how fast the machine is. */
const MARGIN_MS = 2_000
/** The requests of every server that are always under way: hundreds altogether. */
const CLIENTS = 40
/** The requests of each of those whose limit is soon used up. */
const TIGHT_CLIENTS = 10
const TIGHT_LIMIT = 5
/** The refusals, one after the other, until a server remembers one and has looked whether it still holds. */
const REFUSALS = 4

/** Far from its limit. */
const FREE = { path: '/free' }
/** Has used up its limit before the fault. */
const BLOCKED = { path: '/tight/', from: '203.0.113.1' }
/** Comes when the store has failed. */
const NEWCOMER = { path: '/tight/', from: '203.0.113.2' }
/** Answers of every server before, during and after the fault. */
const ANSWERS = 120
/** The number of times that a server in trouble is led to try the store again before the fault ends. */
const PROBES = 2
/** Longer than a driver takes to give up a dead connection. */
const RECOVERY_MS = 15_000

const FAILED = /^Rate limit store failed/
const ANSWERS_AGAIN = /^Rate limit store answers again/

export interface Fault {
  /** A URL of the database, as the servers see it. */
  readonly url: string
  readonly schema?: string
  /** Makes a client for one of the servers, which otherwise has one of its own. */
  readonly connect?: () => RateLimitClient
  /** Begins the fault, under these servers. */
  begin(apps: readonly TestApp[]): unknown
  /** Ends it; a fault without an end is over at once. */
  end?(apps: readonly TestApp[]): unknown
}

interface LoadedApp extends TestApp {
  readonly fallback: StoreErrorAction
  readonly stream: RequestStream
  /** Every line, at level `info` or above. */
  readonly lines: LogLine[]
}

/** Runs the servers through the fault, and proves what holds whatever the fault is. They still run afterwards. */
export async function proveFault(t: TestContext, fault: Fault): Promise<readonly LoadedApp[]> {
  const clock = fakeClock()
  const apps = await Promise.all(STORE_ERROR_ACTIONS.map((fallback) => startLoaded(t, fallback, fault, clock)))
  const answered = (more: number) => Promise.all(apps.map(({ stream }) => stream.answered(more)))
  const logged = (line: RegExp) => apps.every(({ lines }) => lines.some(({ msg }) => line.test(msg)))

  await answered(ANSWERS)
  const loadedFromMs = performance.now()
  await fault.begin(apps)
  await eventually(
    'every server has noticed',
    async () => {
      if (logged(FAILED)) return true
      // A fault that is over at once may have passed a server that was not asking just then.
      if (fault.end === undefined) await fault.begin(apps)
      return false
    },
    RECOVERY_MS,
  )
  const downFromMs = performance.now()
  const newcomers = apps.map(({ port }) => startRequestStream(port, times(TIGHT_CLIENTS, NEWCOMER)))
  atEnd(t, () => Promise.allSettled(newcomers.map((stream) => stream.stop())))
  await Promise.all(newcomers.map((stream) => stream.answered(TIGHT_CLIENTS * TIGHT_LIMIT)))
  await answered(ANSWERS)
  for (let probe = 0; probe < PROBES && fault.end !== undefined; probe++) {
    clock.advance(1_000)
    await answered(ANSWERS / PROBES)
  }
  const testedUntilMs = performance.now()
  await fault.end?.(apps)
  await eventually(
    'every server goes on with the store',
    () => {
      clock.advance(1_000)
      return logged(ANSWERS_AGAIN)
    },
    RECOVERY_MS,
  )
  const backFromMs = performance.now()
  // A fault that was over at once may have ended earlier.
  const downUntilMs = Math.min(testedUntilMs, ...apps.map(answersFromMs))
  await answered(ANSWERS)
  await Promise.all(newcomers.map((stream) => stream.answered(TIGHT_CLIENTS * TIGHT_LIMIT)))
  await Promise.all([...newcomers, ...apps.map(({ stream }) => stream)].map((stream) => stream.stop()))

  for (const [place, app] of apps.entries()) {
    proveLog(app)
    const samples = [...app.stream.samples, ...(newcomers[place]?.samples ?? [])]
    proveAnswers(app.fallback, samples, { loadedFromMs, downFromMs, downUntilMs, backFromMs })
    await proveCounting(app)
  }
  return apps
}

async function startLoaded(
  t: TestContext,
  fallback: StoreErrorAction,
  { url, schema, connect }: Fault,
  clock: FakeClock,
): Promise<LoadedApp> {
  const { stream: destination, log: lines } = captureLog()
  const started = await startApp(t, {
    database: null,
    clock,
    fastify: {
      logger: { level: 'info', stream: destination },
      logController: new LogController({ disableRequestLogging: true }),
    },
    plugin: {
      ...(connect === undefined ? { database: url, schema } : { database: connect() }),
      namespace: fallback,
      onStoreError: fallback,
      storeTimeoutMs: STORE_TIMEOUT_MS,
      middleware: {
        backend: 'database',
        defaultRate: '1000000/d',
        rateLimits: { '/tight/': `${TIGHT_LIMIT}/d` },
      },
    },
  })
  // The requests come one after the other, so that the load meets connections that are open and counters that are
  // there.
  await started.statuses(TIGHT_LIMIT + REFUSALS, BLOCKED.path, BLOCKED)
  await started.statuses(1, FREE.path)
  const stream = startRequestStream(started.port, [...times(CLIENTS, FREE), ...times(TIGHT_CLIENTS, BLOCKED)])
  atEnd(t, () => stream.stop().catch(() => undefined))
  return { ...started, fallback, stream, lines }
}

interface Phases {
  readonly loadedFromMs: number
  readonly downFromMs: number
  readonly downUntilMs: number
  readonly backFromMs: number
}

function proveAnswers(fallback: StoreErrorAction, samples: readonly Sample[], phases: Phases): void {
  const p99 = p99Ms(samples.filter(({ startedMs }) => startedMs > phases.loadedFromMs))
  assert.ok(p99 < STORE_TIMEOUT_MS + MARGIN_MS, `${fallback}: p99 ${p99} ms`)

  const during = samples.filter(
    ({ startedMs, endedMs }) => startedMs > phases.downFromMs && endedMs < phases.downUntilMs,
  )
  const afterwards = samples.filter(({ startedMs }) => startedMs > phases.backFromMs)
  // A client whom the store had refused does not get in, whatever becomes of the store.
  assert.deepEqual(statusesOf(samples, BLOCKED), [429], fallback)
  assert.deepEqual(statusesOf(afterwards, FREE), [200], fallback)
  const admitted = samples.filter(({ client, status }) => client === NEWCOMER && status === 200).length
  if (fallback === 'deny') {
    assert.deepEqual(statusesOf(during, FREE), [503])
    assert.deepEqual(statusesOf(during, NEWCOMER), [503])
    assert.deepEqual(statusesOf(samples, FREE), [200, 503])
    assert.ok(admitted <= TIGHT_LIMIT, `${admitted} admitted`)
    return
  }
  assert.deepEqual(statusesOf(samples, FREE), [200], fallback)
  if (fallback === 'allow') {
    assert.deepEqual(statusesOf(during, NEWCOMER), [200])
    return
  }
  assert.deepEqual(statusesOf(samples, NEWCOMER), [200, 429])
  // The whole limit of the memory, then that of the store, of which a probe may have used some.
  assert.ok(admitted >= TIGHT_LIMIT && admitted <= 2 * TIGHT_LIMIT, `${admitted} admitted`)
}

/** Returns when a server has said that the store answers again. */
function answersFromMs({ lines }: LoadedApp): number {
  const line = lines.find(({ msg }) => ANSWERS_AGAIN.test(msg))
  return (line?.time ?? Number.POSITIVE_INFINITY) - performance.timeOrigin
}

/** The different status codes of the answers to a client. */
function statusesOf(samples: readonly Sample[], streamClient: StreamClient): number[] {
  const statuses = samples.filter(({ client }) => client === streamClient).map(({ status }) => status)
  return [...new Set(statuses)].sort((a, b) => a - b)
}

function times(count: number, client: StreamClient): StreamClient[] {
  return Array.from({ length: count }, () => client)
}

/** The line about what is in force, which every server logs when it starts. */
const START_LINE = /^Rate limits: /

function proveLog({ fallback, lines }: LoadedApp): void {
  const ours = lines.filter(({ level, msg }) => level >= WARN || /rate limit/i.test(msg)).map(({ msg }) => msg)
  const told = ours.filter((msg) => !START_LINE.test(msg))
  assert.equal(told.length, 2, `${fallback}: ${JSON.stringify(lines)}`)
  assert.match(told[0] ?? '', FAILED)
  assert.match(told[1] ?? '', ANSWERS_AGAIN)
}

/** The store counts on: one request, one more. What was under way at the end of the load may still be counted. */
async function proveCounting({ fallback, request }: LoadedApp): Promise<void> {
  const remaining = async () => Number((await request(FREE.path)).headers['x-ratelimit-remaining'])
  await eventually(`${fallback} counts every request`, async () => (await remaining()) - (await remaining()) === 1)
}
