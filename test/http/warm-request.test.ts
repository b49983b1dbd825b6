/** How much code a request passes that has nothing left to set up, with a limit of code or of a rule, in memory. */
import assert from 'node:assert/strict'
import { Session } from 'node:inspector/promises'
import { type TestContext, test } from 'node:test'
import { atEnd } from '../support/at-end.js'
import { startApp, type TestApp } from '../support/build-app.js'
import { long } from '../support/long.js'

const SOURCE = new URL('../../src/', import.meta.url).href
const MAX_FILES = 16
const MAX_FUNCTIONS = 20
const MIDDLEWARE = { backend: 'memory', defaultRate: '2000/m' } as const

test('a request passes at most 16 files and 20 named functions where the limit is in code', long(), async (t) => {
  const server = await startApp(t, { database: null, plugin: { middleware: MIDDLEWARE } })
  await passesLittle(t, server)
})

test('a request passes at most 16 files and 20 named functions where the limit is a rule', long(), async (t) => {
  const server = await startApp(t, { database: 'sqlite', plugin: { useDynamicRules: true, middleware: MIDDLEWARE } })
  const rule = { name: 'things', pathPattern: '^/things/', rate: '5000/m' }
  await server.app.smartRateLimit.client.rateLimitRule.create({ data: rule })
  const { headers } = await server.request('/things/7')
  assert.equal(headers['x-ratelimit-limit'], '5000')
  await passesLittle(t, server)
})

async function passesLittle(t: TestContext, { app, request }: TestApp): Promise<void> {
  // The routes of the first thousand requests are examined.
  for (let count = 0; count < 1_001; count++) await app.inject('/things/7')
  const session = new Session()
  session.connect()
  atEnd(t, () => session.disconnect())
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const ways: (readonly string[])[] = []
  // Of several requests, beside some of which timers run.
  for (let count = 0; count < 5; count++) {
    await request('/things/7')
    const { result } = await session.post('Profiler.takePreciseCoverage')
    ways.push(
      result
        .filter(({ url }) => url.startsWith(SOURCE))
        .flatMap(({ url, functions }) =>
          functions
            // Fields of a class are initialized by a function that nobody has named.
            .filter(({ functionName, ranges: [whole] }) => whole?.count && /^[^<]/.test(functionName))
            .map(({ functionName }) => `${url.slice(SOURCE.length)} ${functionName}`),
        ),
    )
  }
  const [way = []] = ways.toSorted((one, other) => one.length - other.length)
  const files = new Set(way.map((passed) => passed.split(' ', 1).join()))
  assert.ok(way.length > 10 && way.length <= MAX_FUNCTIONS, way.join('\n'))
  assert.ok(files.size <= MAX_FILES, way.join('\n'))
}
