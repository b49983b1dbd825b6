/** The recipes for tokens, money, bytes and seconds do what their page says, on a month of requests over HTTP. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { dashboardPlugin } from '../../src/dashboard.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { ratelimit } from '../support/scripts.js'

const NOVEMBER_MS = Date.UTC(2026, 10, 1)
const PRICE = { input: 3, output: 15 }

function readRules(): unknown {
  const page = readFileSync(join(PACKAGE_ROOT, 'docs/guides/unit-recipes.md'), 'utf8')
  const [, document = ''] = /```json file=rules.json\n(.+?)```/s.exec(page) ?? []
  return JSON.parse(document)
}

function userFor({ headers }: FastifyRequest) {
  return { id: String(headers['x-user']), org: String(headers['x-org'] ?? 'acme') }
}

/** The gateway of the page. A request says how many tokens its prompt has, and each piece of its answer. */
function gateway(app: FastifyInstance): void {
  const { charge } = app.smartRateLimit
  app.post<{ Body: { input: number; output: number[] } }>('/chat', (request, reply) => {
    const { input, output } = request.body
    async function* answer() {
      await charge(request, { 'input-tokens': input, 'output-tokens': 0, microdollars: input * PRICE.input })
      for (const tokens of output) {
        const left = await charge(request, { 'output-tokens': tokens, microdollars: tokens * PRICE.output })
        yield `${tokens} `
        if (left.microdollars === 0) return
      }
    }
    return reply.type('text/plain').send(Readable.from(answer()))
  })
}

async function startGateway(t: TestContext, provider: Provider) {
  const clock = fakeClock(NOVEMBER_MS + DAY_MS)
  const database = await openDatabase(t, provider, clock)
  const told: string[] = []
  const started = await startApp(t, {
    database,
    clock,
    plugin: {
      useDynamicRules: true,
      headers: 'draft',
      user: userFor,
      onNotice: (client, { policy, rate }, share) => told.push(`${client}: ${share} % of ${policy}, ${rate}`),
      middleware: { defaultRate: '100000/m' },
    },
    async routes(app) {
      gateway(app)
      await app.register(dashboardPlugin, { prefix: '/ratelimit', isStaff: () => true })
    },
  })
  await started.app.smartRateLimit.rules.import(readRules(), { keep: true })
  return {
    ...started,
    told,
    database,
    /** Asks the gateway, and returns the status with the answer, or with what refused. */
    async chat(user: string, input: number, output: readonly number[], headers: Record<string, string> = {}) {
      const { status, text } = await started.request('/chat', {
        method: 'POST',
        headers: { 'x-user': user, 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ input, output }),
      })
      return status === 200 ? text.trim() : `${status} ${JSON.parse(text).message.replace(/\d+/, 'N')}`
    },
  }
}

forAnyDatabase((provider) => {
  test(
    'a gateway holds users to requests, input and output, and organisations to the budget of a month, whose invoice is what was charged',
    long(),
    async (t) => {
      const { app, chat, request, clock, database, log, told } = await startGateway(t, provider)
      // Requests: what a refused one would have reserved is taken of no limit.
      for (let times = 0; times < 60; times++) assert.equal(await chat('alice', 1, [1]), '1')
      for (let times = 0; times < 5; times++) {
        assert.equal(await chat('alice', 1, [1]), '429 Rate limit exceeded, retry in N seconds')
      }
      clock.advance(MINUTE_MS)
      // Input and output: the last answer before the limit ends, and the next one has to wait.
      assert.equal(await chat('bob', 39_500, [1]), '1')
      assert.equal(await chat('bob', 1, [1]), '429 Rate limit of input-tokens exceeded, retry in N seconds')
      assert.equal(await chat('carol', 1, Array(40).fill(300)), Array(40).fill(300).join(' '))
      assert.equal(await chat('carol', 1, [1]), '429 Rate limit of output-tokens exceeded, retry in N seconds')
      clock.advance(2 * MINUTE_MS)
      assert.equal(await chat('carol', 1, [1]), '1')
      const usedBefore = 61 * PRICE.input + 61 * PRICE.output + 39_500 * PRICE.input + PRICE.output
      const ofCarol = PRICE.input + 12_000 * PRICE.output
      // The budget: an answer stops when it is spent, for all users of the organisation, until the month is over.
      clock.advance(20 * DAY_MS)
      const rest = 20_000_000 - usedBefore - ofCarol
      const piece = Math.ceil(rest / PRICE.output / 3)
      assert.equal(await chat('dora', 0, Array(100).fill(piece)), Array(3).fill(piece).join(' '))
      const ofBudget = '429 Rate limit of microdollars exceeded, retry in N seconds'
      assert.deepEqual([await chat('alice', 1, [1]), await chat('bob', 1, [1])], [ofBudget, ofBudget])
      assert.equal(await chat('emil', 1, [1], { 'x-org': 'other' }), '1')
      clock.advance(NOVEMBER_MS + 30 * DAY_MS - clock.now())
      assert.equal(await chat('alice', 1, [1]), '1')

      const amounts = {
        'input-tokens': { 'user:alice': 60, 'user:bob': 39_500, 'user:carol': 2, 'user:dora': 0, 'user:emil': 1 },
        'output-tokens': {
          'user:alice': 60,
          'user:bob': 1,
          'user:carol': 12_001,
          'user:dora': 3 * piece,
          'user:emil': 1,
        },
        microdollars: {
          'user.org:acme': usedBefore + ofCarol + 3 * piece * PRICE.output,
          'user.org:other': PRICE.input + PRICE.output,
        },
      }
      const decembers = async () => (await app.smartRateLimit.analytics.getUsage({ unit: 'input-tokens' })).rows
      await eventually('usage is written', async () => (await decembers()).length > 0)
      const env = { RATELIMIT_DATABASE_URL: database.url, RATELIMIT_SCHEMA: database.schema }
      for (const [unit, clients] of Object.entries(amounts)) {
        const { stdout } = await ratelimit(['usage', '--unit', unit, '--month', '2026-11', '--csv'], { env })
        const rows = stdout.trimEnd().split('\r\n').slice(1)
        assert.deepEqual(
          rows.map((row) => row.split(',').slice(0, 3)),
          Object.entries(clients).map(([client, amount]) => [client, unit, String(amount)]),
        )
        const page = await request(`/ratelimit/dashboard/usage.csv?unit=${unit}&since=2026-11&until=2026-11`)
        assert.equal(page.text, stdout)
      }
      assert.deepEqual(
        told,
        [80, 100].map((share) => `user.org:acme: ${share} % of budget, 20000000/month`),
      )
      assert.deepEqual(log, [])
    },
  )
})

test('uploads reserve what they announce, are charged for what comes, and give back the rest when they are broken off', async (t) => {
  const { port, request, clock } = await startApp(t, {
    database: null,
    plugin: { user: userFor, middleware: { backend: 'memory', defaultRate: '1000/m' } },
    routes(app) {
      const { limit, charge } = app.smartRateLimit
      const bytes = limit({
        name: 'upload-bytes',
        rate: '1000000/h',
        key: 'user',
        unit: 'content-bytes',
        reserve: ({ headers }) => Number(headers['content-length'] ?? 100_000),
      })
      app.addContentTypeParser('application/octet-stream', (_request, _payload, done) => done(null))
      app.put('/files', { onRequest: bytes }, async (request) => {
        let left = await charge(request, { 'content-bytes': 0 })
        for await (const chunk of request.raw) left = await charge(request, { 'content-bytes': chunk.length })
        return { left }
      })
    },
  })
  const upload = { 'content-type': 'application/octet-stream', 'x-user': 'alice' }
  const put = (size: number) => request('/files', { method: 'PUT', headers: upload, body: 'x'.repeat(size) })
  assert.deepEqual(JSON.parse((await put(600_000)).text), { left: { 'content-bytes': 400_000 } })
  const refused = await put(400_001)
  assert.equal(refused.status, 429)
  assert.ok(refused.headers['retry-after'] !== undefined)
  const never = await put(1_000_001)
  assert.deepEqual([never.status, never.headers['retry-after']], [429, undefined])

  // One announces 300,000 bytes, sends 50,000 and leaves.
  const broken = httpRequest({
    port,
    host: '127.0.0.1',
    path: '/files',
    method: 'PUT',
    headers: { ...upload, 'content-length': 300_000 },
  })
  broken.on('error', () => undefined)
  broken.write('x'.repeat(50_000))
  const left = async () => JSON.parse((await put(0)).text).left['content-bytes']
  await eventually('it has reserved', async () => (await left()) === 100_000)
  broken.destroy()
  await eventually('it has given back', async () => (await left()) === 350_000)

  // One in chunks reserves a tenth, and is charged for what comes.
  const chunked = await new Promise<string>((resolve, reject) => {
    const sent = httpRequest({ port, host: '127.0.0.1', path: '/files', method: 'PUT', headers: upload }, (response) =>
      resolve(readText(response)),
    )
    sent.on('error', reject)
    sent.write('x'.repeat(200_000))
    sent.end('x'.repeat(100_000))
  })
  assert.deepEqual(JSON.parse(chunked), { left: { 'content-bytes': 50_000 } })
  clock.advance(HOUR_MS)
  assert.deepEqual(JSON.parse((await put(1_000_000)).text), { left: { 'content-bytes': 0 } })
})

test('jobs reserve seconds, run after the answer, and are charged for what they took', async (t) => {
  const jobs: (() => void)[] = []
  const { request, clock } = await startApp(t, {
    database: null,
    plugin: { user: userFor, middleware: { backend: 'memory', defaultRate: '1000/m' } },
    routes(app) {
      const { limit, charge } = app.smartRateLimit
      const seconds = limit({ name: 'job-seconds', rate: '600/d', key: 'user', unit: 'job-seconds', reserve: 300 })
      app.post('/reports', { onRequest: seconds }, async (request, reply) => {
        const startMs = clock.now()
        new Promise<void>((end) => jobs.push(end))
          .finally(() => charge(request, { 'job-seconds': Math.ceil((clock.now() - startMs) / 1_000) }))
          .catch((error) => request.log.error(error))
        return reply.code(202).send()
      })
    },
  })
  const start = async () => (await request('/reports', { method: 'POST', headers: { 'x-user': 'alice' } })).status
  assert.deepEqual([await start(), await start(), await start()], [202, 202, 429])
  clock.advance(90_500)
  for (const end of jobs.splice(0)) end()
  await eventually('the jobs are charged', async () => (await start()) === 202)
  // 2 * 91 are used and 300 reserved.
  assert.equal(await start(), 429)
  clock.advance(200_000)
  jobs[0]?.()
  await new Promise(setImmediate)
  assert.equal(await start(), 429, '2 * 91 + 200 are used')
})
