/** The recipes of the documentation do what it says of them, imported as they stand there. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'

const [ALICE, BOB, CAROL] = ['203.0.113.7', '203.0.113.8', '203.0.113.9']
const SALE_MS = Date.parse('2027-11-26T00:00:00Z')

function readRecipes(): unknown {
  const page = readFileSync(join(PACKAGE_ROOT, 'docs/guides/recipes.md'), 'utf8')
  const [, document = ''] = /```json\n(.+?)```/s.exec(page) ?? []
  return JSON.parse(document)
}

/** Whose plan is the name of the header. */
function userFor({ headers: { 'x-plan': plan, 'x-user': id = plan } }: FastifyRequest) {
  return plan === undefined ? null : { id: String(id), plan }
}

const uploads: (() => void)[] = []

function routes(app: FastifyInstance): void {
  app.get('/*', async () => 'ok')
  app.post('/sign-in', async ({ headers }, reply) => reply.code(headers['x-password'] === 'right' ? 200 : 401).send())
  app.post('/uploads', async () => {
    await new Promise<void>((end) => uploads.push(end))
    return 'ok'
  })
}

forAnyDatabase((provider) => {
  test('sign-ins, tiers, an upstream, a search, uploads and a sale have the limits of the recipes', async (t) => {
    const clock = fakeClock(SALE_MS - HOUR_MS)
    const { app, statuses, request, log } = await startApp(t, {
      database: await openDatabase(t, provider, clock),
      clock,
      plugin: {
        useDynamicRules: true,
        headers: 'both',
        user: userFor,
        middleware: { backend: 'memory', defaultRate: '1000/m' },
      },
      routes,
    })
    const { rules } = await app.smartRateLimit.rules.import(readRecipes(), { keep: true })
    assert.deepEqual([rules.created.length, rules.unchanged], [7, 0])

    // Whoever signs in counts nothing, who guesses is refused after five failures and banned after three refusals.
    const signIn = { method: 'POST', from: ALICE }
    assert.deepEqual(
      await statuses(9, '/sign-in', { ...signIn, headers: { 'x-password': 'right' } }),
      Array(9).fill(200),
    )
    const guesses = [...Array(5).fill(401), 429, 429, 429, 403]
    assert.deepEqual(await statuses(9, '/sign-in', signIn), guesses)
    await eventually('everything is denied', async () => (await request('/', { from: ALICE })).status === 403)
    assert.deepEqual(await statuses(1, '/sign-in', { ...signIn, from: BOB }), [401])

    const limits = async (plan: string) => {
      const { headers } = await request('/api/items', { from: CAROL, headers: { 'x-plan': plan } })
      return headers['x-ratelimit-limit']
    }
    assert.deepEqual([await limits('free'), await limits('pro'), await limits('other')], ['10', '50', '1000'])
    const free = { from: CAROL, headers: { 'x-plan': 'free', 'x-user': 'dave' } }
    assert.deepEqual(await statuses(11, '/api/items', free), [...Array(10).fill(200), 429])
    clock.advance(SECOND_MS)
    // The hour has counted eleven before.
    assert.match(String((await request('/api/items', free)).headers.ratelimit), /^"free:s";r=9;t=1, "free:h";r=988;/)

    assert.deepEqual(await statuses(99, '/weather', { from: BOB }), Array(99).fill(200))
    assert.deepEqual(await statuses(2, '/weather/now', { from: CAROL }), [200, 429])

    assert.deepEqual(await statuses(11, '/search?q=a', { from: BOB }), [...Array(10).fill(200), 429])

    const upload = () => request('/uploads', { method: 'POST', headers: { 'x-plan': 'free' } })
    const sent = Array.from({ length: 5 }, upload)
    await eventually('five are in progress', () => uploads.length === 5)
    assert.equal((await upload()).status, 429)
    for (const end of uploads.splice(0)) end()
    assert.deepEqual(
      (await Promise.all(sent)).map(({ status }) => status),
      Array(5).fill(200),
    )

    const shop = async () => (await request('/shop/lamps', { from: BOB })).headers['x-ratelimit-limit']
    assert.equal(await shop(), '1000')
    clock.advance(SALE_MS - clock.now())
    assert.equal(await shop(), '10')
    await statuses(9, '/shop/lamps', { from: BOB })
    const { status, text } = await request('/shop/lamps', { from: BOB })
    assert.deepEqual([status, JSON.parse(text).message], [503, 'The sale is busy: try again in 60 seconds'])
    clock.advance(DAY_MS)
    assert.equal(await shop(), '1000')
    assert.deepEqual(
      log.map(({ msg }) => msg),
      [JSON.parse(text).message],
    )
  })
})
