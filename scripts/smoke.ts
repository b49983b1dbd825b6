/**
 * Proves that a version of Node runs everything: requests all parts of a server with limits, rules, events, dashboard
 * and panel on SQLite, and then puts it under load, with frequent garbage collection.
 *
 *     node --expose-gc dist/scripts/smoke.js --seconds 300
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Fastify, { type FastifyInstance } from 'fastify'
import { adminPlugin } from '../admin/index.js'
import { dashboardPlugin, hashPassword, staffAccounts } from '../src/dashboard.js'
import { rateLimitPlugin } from '../src/index.js'

const PASSWORD = 'the password of the smoke test'
const COLLECT_EVERY_MS = 50
/** The number of concurrent clients, and the interval at which staff open the pages and change a rule. */
const CLIENTS = 8
const STAFF_EVERY_MS = 250

async function buildApp(folder: string): Promise<FastifyInstance> {
  const app = Fastify({ logger: { level: 'error' }, pluginTimeout: 120_000 })
  await app.register(rateLimitPlugin, {
    database: `file:${join(folder, 'ratelimit.db')}`,
    logEvents: true,
    useDynamicRules: true,
    middleware: { defaultRate: '1000000000/m', rateLimits: { '/limited': '5/d' } },
  })
  const staff = staffAccounts({
    accounts: { staff: await hashPassword(PASSWORD) },
    sessionSecret: 'a secret of the smoke test, at least 32 characters',
    cookiePath: '/ops',
  })
  await app.register(dashboardPlugin, { prefix: '/ops', staff })
  await app.register(adminPlugin, { rootPath: '/ops/admin', staff })
  app.get('/*', async () => 'ok')
  return app
}

async function fetchStatus(url: string, headers: Record<string, string> = {}): Promise<number> {
  const response = await fetch(url, { headers, redirect: 'manual' })
  await response.arrayBuffer()
  return response.status
}

/** @returns the headers for requests of the pages */
async function signIn(origin: string): Promise<Record<string, string>> {
  const answer = await fetch(`${origin}/ops/admin/sign-in`, {
    method: 'POST',
    body: new URLSearchParams({ account: 'staff', password: PASSWORD }),
    redirect: 'manual',
  })
  assert.equal(answer.status, 303)
  const [cookie = ''] = answer.headers.getSetCookie()
  return { cookie: cookie.split(';')[0] ?? '', 'sec-fetch-site': 'same-origin', 'x-rate-limit-panel': '1' }
}

/** Requests everything once. */
async function tryEverything(app: FastifyInstance, origin: string, staff: Record<string, string>): Promise<void> {
  const { client, events, analytics, health } = app.smartRateLimit
  const limited: number[] = []
  for (let request = 0; request < 6; request++) limited.push(await fetchStatus(`${origin}/limited`))
  assert.deepEqual(limited, [200, 200, 200, 200, 200, 429])

  await client.rateLimitRule.create({ data: { name: 'nothing', pathPattern: '^/ruled', rate: '0/m' } })
  assert.equal(await fetchStatus(`${origin}/ruled`), 429)
  await events.flush()
  assert.equal(await client.rateLimitEvent.count(), 7)
  assert.equal((await analytics.getTrafficSummary()).blocked, 2)
  assert.equal((await health()).ok, true)

  assert.equal(await fetchStatus(`${origin}/ops/dashboard/`), 403)
  assert.equal(await fetchStatus(`${origin}/ops/dashboard/`, staff), 200)
  assert.equal(await fetchStatus(`${origin}/ops/admin/resources/rules`, staff), 200)
  assert.equal(await fetchStatus(`${origin}/ops/admin/api/resources/rules/actions/list`, staff), 200)
}

/** @returns the number of answers by status */
async function load(app: FastifyInstance, origin: string, staff: Record<string, string>, untilMs: number) {
  const counts: Record<number, number> = {}
  async function ask(path: string, headers?: Record<string, string>): Promise<void> {
    const status = await fetchStatus(origin + path, headers)
    counts[status] = (counts[status] ?? 0) + 1
  }
  async function visit(client: number): Promise<void> {
    for (let request = 0; Date.now() < untilMs; request++) {
      await ask(request % 20 === 0 ? '/limited' : `/pages/${client}/${request % 100}`)
    }
  }
  async function work(): Promise<void> {
    const { client, rules } = app.smartRateLimit
    for (let round = 0; Date.now() < untilMs; round++) {
      await client.rateLimitRule.update({ where: { name: 'nothing' }, data: { priority: round % 10 } })
      await rules.history('nothing', { limit: 5 })
      await ask('/ops/dashboard/', staff)
      await ask('/ops/admin/api/resources/events/actions/list', staff)
      await delay(STAFF_EVERY_MS)
    }
  }
  await Promise.all([work(), ...Array.from({ length: CLIENTS }, (_none, client) => visit(client))])
  return counts
}

async function run(seconds: number): Promise<void> {
  const { gc } = globalThis
  if (gc === undefined) throw new Error('Run it with node --expose-gc')
  let collections = 0
  const collecting = setInterval(() => {
    gc()
    collections++
  }, COLLECT_EVERY_MS)
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-smoke-'))
  const app = await buildApp(folder)
  try {
    const origin = await app.listen({ host: '127.0.0.1', port: 0 })
    const staff = await signIn(origin)
    await tryEverything(app, origin, staff)
    const counts = await load(app, origin, staff, Date.now() + seconds * 1_000)
    assert.deepEqual(Object.keys(counts), ['200', '429'], 'statuses under load')
    const { dropped } = app.smartRateLimit.events.stats()
    assert.equal(dropped, 0)
    const { rss } = process.memoryUsage()
    console.log(
      `Node ${process.version}: ${counts[200]} answered, ${counts[429]} refused in ${seconds} s, ${collections} collections, ${Math.round(rss / 1_048_576)} MB`,
    )
  } finally {
    await app.close()
    clearInterval(collecting)
    await rm(folder, { recursive: true, force: true })
  }
}

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '10' } } })
await run(Number(values.seconds))
