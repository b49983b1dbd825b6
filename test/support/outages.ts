/**
 * A server that goes through outages, and tells what it holds before and after them.
 *
 *     node --expose-gc --import tsx outages.ts sqlite|postgresql <outages>
 *
 * Prints `{ before, after, left }` as JSON: what it held, `{ heapBytes, resources }`, and the names of the resources of
 * which it still holds more than before when all has settled.
 */
import { setImmediate as turn } from 'node:timers/promises'
import Fastify, { LogController } from 'fastify'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'
import { captureLog } from './build-app.js'
import { fakeClock } from './clock.js'
import { openTestDatabase, type TestDatabase } from './databases.js'
import { eventually } from './eventually.js'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.js'

/** Requests in one outage, as many at once as there are. */
const WAVE = 200
const WAVES = 5
const PATIENCE_MS = 30_000

/** The time that what is under way may take to end on a busy machine, in milliseconds. */
const SETTLING_MS = 20_000
/** A pool may keep a few connections more or less, each of which the proxy has too. */
const MOST_SOCKETS = 4 * 5

export interface Held {
  readonly heapBytes: number
  readonly resources: Readonly<Record<string, number>>
}

const [provider, outages] = process.argv.slice(2)

async function run(): Promise<void> {
  const database = await openTestDatabase(provider === 'postgresql' ? 'postgresql' : 'sqlite')
  const proxy = provider === 'postgresql' ? await proxyTo(database) : undefined
  const clock = fakeClock()
  const { stream, log } = captureLog()
  const app = Fastify({
    trustProxy: true,
    logger: { level: 'info', stream },
    logController: new LogController({ disableRequestLogging: true }),
  })
  const url = new URL(database.url)
  if (proxy !== undefined) url.port = String(proxy.port)
  await app.register(rateLimitPlugin, {
    database: proxy === undefined ? database.url : url.href,
    schema: database.schema,
    clock,
    storeTimeoutMs: 2_000,
    logEvents: true,
    useDynamicRules: true,
    middleware: { backend: 'database', defaultRate: '20/h' },
  })
  app.get('/', async () => 'ok')

  const wave = () => Promise.all(Array.from({ length: WAVE }, () => app.inject('/')))
  const count = (line: RegExp) => log.filter(({ msg }) => line.test(msg)).length
  // A busy machine may have been taken for an outage just before.
  const isDown = () => count(/store failed/) > count(/store answers again/)
  async function goThroughOutage(): Promise<void> {
    const newcomers = () =>
      Promise.all(
        Array.from({ length: WAVE }, (_, place) =>
          app.inject({ url: '/', headers: { 'x-forwarded-for': `203.0.113.${place % 100}` } }),
        ),
      )
    await cut(database, proxy)
    await eventually(
      'the outage is noticed',
      async () => {
        await newcomers()
        return isDown()
      },
      PATIENCE_MS,
    )
    for (let round = 0; round < WAVES; round++) {
      clock.advance(1_000)
      await newcomers()
    }
    await mend(database, proxy)
    await eventually(
      'it is over',
      async () => {
        clock.advance(1_000)
        await newcomers()
        return !isDown()
      },
      PATIENCE_MS,
    )
    await app.smartRateLimit.events.flush()
    await wave()
    // Another day: every client has its limit again.
    clock.advance(86_400_000)
  }

  await wave()
  // The warm-up makes what is made once, which is no leak.
  for (let warmUp = 0; warmUp < 2; warmUp++) await goThroughOutage()
  const before = await held()
  for (let outage = 0; outage < Number(outages); outage++) await goThroughOutage()
  let after = await held()
  // A statement or a time-out of the last requests may still be under way.
  await eventually(
    'it holds no more than before',
    async () => {
      after = await held()
      return moreOf(before, after).length === 0
    },
    SETTLING_MS,
  ).catch(() => undefined)
  console.log(JSON.stringify({ before, after, left: moreOf(before, after) }))
  await app.close()
  await proxy?.switchOff()
  await database.close()
}

/** The resources of which there are more than before. */
function moreOf(before: Held, after: Held): string[] {
  return Object.entries(after.resources)
    .filter(([name, count]) => count > (name === 'TCPSocketWrap' ? MOST_SOCKETS : (before.resources[name] ?? 0)))
    .map(([name]) => name)
}

async function held(): Promise<Held> {
  for (let round = 0; round < 5; round++) {
    globalThis.gc?.()
    await turn()
  }
  const resources: Record<string, number> = {}
  for (const name of process.getActiveResourcesInfo()) resources[name] = (resources[name] ?? 0) + 1
  return { heapBytes: process.memoryUsage().heapUsed, resources }
}

function proxyTo({ url }: TestDatabase): Promise<TcpProxy> {
  const { hostname, port } = new URL(url)
  return startTcpProxy({ host: hostname, port: Number(port || 5432) })
}

async function cut({ database }: TestDatabase, proxy: TcpProxy | undefined): Promise<void> {
  if (proxy !== undefined) await proxy.switchOff()
  else await database.execute('ALTER TABLE rate_limit_counter RENAME TO elsewhere')
}

async function mend({ database }: TestDatabase, proxy: TcpProxy | undefined): Promise<void> {
  if (proxy !== undefined) await proxy.switchOn()
  else await database.execute('ALTER TABLE elsewhere RENAME TO rate_limit_counter')
}

await run()
