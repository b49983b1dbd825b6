/** The database is away, slow, locked or empty: requests are answered all the same, and all is well when it is back. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import type { Decision, RateLimitOptions, Store } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { ERROR, type LogLine, openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { closedPort } from '../support/tcp-proxy.js'

const outages = (log: readonly LogLine[]) => log.filter(({ msg }) => /store failed/i.test(msg))
const errors = (log: readonly LogLine[]) => log.filter(({ level }) => level >= ERROR)

test("with no PostgreSQL at the port the app starts, and onStoreError 'local' counts 2/m in memory", async (t) => {
  const { statuses, request, log } = await startWithout(t, { middleware: { defaultRate: '2/m' } })

  assert.deepEqual(await statuses(4, '/'), [200, 200, 429, 429])
  assert.equal((await request('/')).headers['retry-after'], '60')
  assert.equal(outages(log).length, 1)
})

test("onStoreError 'allow' lets everything through", async (t) => {
  const { statuses } = await startWithout(t, { onStoreError: 'allow', middleware: { defaultRate: '2/m' } })

  assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 200])
})

test("onStoreError 'deny' answers 503 with the code FST_RATE_LIMIT_STORE_UNAVAILABLE, and another try is worth it in a second", async (t) => {
  const { request } = await startWithout(t, { onStoreError: 'deny' })

  const { status, headers, text } = await request('/')

  assert.equal(status, 503)
  const { message, ...body } = JSON.parse(text)
  assert.deepEqual(body, {
    statusCode: 503,
    code: 'FST_RATE_LIMIT_STORE_UNAVAILABLE',
    error: 'Service Unavailable',
  })
  assert.equal(typeof message, 'string')
  assert.equal(headers['retry-after'], '1')
})

test(
  'rules and events on a database that is away cost no request an error, and the log says so once for each',
  long(),
  async (t) => {
    const { app, statuses, log } = await startWithout(t, {
      logEvents: true,
      useDynamicRules: true,
      middleware: { defaultRate: '2/m' },
    })

    assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
    await app.smartRateLimit.events.flush()
    const { buffered, dropped } = app.smartRateLimit.events.stats()
    assert.deepEqual({ buffered, dropped }, { buffered: 3, dropped: 0 })
    // At start, for the counters, for the rules and overrides, and for the events.
    assert.ok(errors(log).length <= 4, JSON.stringify(log))
  },
)

/** A store in memory whose decisions have wrong numbers. */
function answering(wrong: Partial<Decision>): Pick<Store, 'concurrency' | 'check'> {
  const right = { allowed: true, count: 1, limit: 1, remaining: 0, resetMs: 60_000, retryAfterMs: 0 }
  return {
    concurrency: Number.POSITIVE_INFINITY,
    check: (checks) => checks.map(() => ({ ...right, ...wrong })),
  }
}

const FAILING: Record<string, Pick<Store, 'concurrency' | 'check'>> = {
  throws: {
    concurrency: 2,
    check: () => {
      throw new Error('no store')
    },
  },
  'throws at once, in memory': {
    concurrency: Number.POSITIVE_INFINITY,
    check: () => {
      throw new Error('no store')
    },
  },
  'rejects, in memory': {
    concurrency: Number.POSITIVE_INFINITY,
    check: () => Promise.reject(new Error('no store')),
  },
  'answers too few decisions': { concurrency: 1, check: () => [] },
  'answers too little': { concurrency: 1, check: (checks) => new Array(checks.length) },
  'answers a number that is none': answering({ resetMs: Number.NaN }),
  'answers a moment in place of a time': answering({ resetMs: Date.now() }),
  'answers a count that is none': answering({ remaining: -1 }),
  'answers a wait that is none': answering({ retryAfterMs: -1 }),
  'never answers': { concurrency: 1, check: () => new Promise(() => undefined) },
}
test('a request waits for the store no longer than storeTimeoutMs, however many limits it meets', {
  timeout: 30_000,
}, async (t) => {
  let passedMs = 0
  const { now } = performance
  t.mock.method(performance, 'now', () => now.call(performance) + passedMs)
  const waitingFor: string[] = []
  const store: Store = {
    concurrency: 8,
    check(checks) {
      waitingFor.push(...checks.map(({ key }) => key))
      if (waitingFor.length > 1) return new Promise(() => undefined)
      passedMs += 60_000
      return Promise.resolve(
        checks.map(() => ({ allowed: true, count: 1, limit: 9, remaining: 8, resetMs: 1, retryAfterMs: 0 })),
      )
    },
    reset: () => undefined,
    close: () => undefined,
  }
  const { statuses, log } = await startApp(t, {
    database: null,
    plugin: { storeTimeoutMs: 60_000, onStoreError: 'deny', middleware: { backend: store, defaultRate: '9/m' } },
    routes: (app) => {
      app.get('/two', { config: { smartRateLimit: { rate: '9/m' } } }, async () => 'ok')
    },
  })
  assert.deepEqual(await statuses(1, '/two'), [503])
  assert.equal(waitingFor.length, 2)
  assert.deepEqual(outages(log), [], 'the store has more time for others')
})

for (const [name, failing] of Object.entries(FAILING)) {
  test(`a store of the host's own that ${name} is a failing store: onStoreError decides`, async (t) => {
    const backend: Store = { ...failing, reset: () => undefined, close: () => undefined }
    const plugin: RateLimitOptions = { storeTimeoutMs: 50, middleware: { backend, defaultRate: '1/m' } }
    const local = await startApp(t, { database: null, plugin })
    const deny = await startApp(t, { database: null, plugin: { ...plugin, onStoreError: 'deny' } })

    assert.deepEqual(await local.statuses(2, '/'), [200, 429])
    assert.deepEqual(await deny.statuses(2, '/'), [503, 503])
    assert.equal(outages(deny.log).length, 1)
  })
}

forEachDatabase((provider) => {
  test('a missing counter table is an outage that the log says how to end: with "ratelimit migrate"', async (t) => {
    const database = await openDatabase(t, provider)
    const { statuses, log } = await startApp(t, { database, plugin: { middleware: { defaultRate: '1/m' } } })
    await database.database.execute(`DROP TABLE ${database.database.dialect.table('rate_limit_counter')}`)

    assert.deepEqual(await statuses(3, '/'), [200, 429, 429])
    assert.equal(errors(log).length, 1)
    assert.match(log[0]?.err?.message ?? '', /ratelimit migrate/)
  })

  test('one event per request, also when the store failed: refused ones of "deny" are allowed: false', async (t) => {
    const database = await openDatabase(t, provider)
    const store: Store = {
      concurrency: 1,
      check: () => Promise.reject(new Error('no store')),
      reset: () => undefined,
      close: () => undefined,
    }
    const local = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { backend: store, defaultRate: '1/m' } },
    })
    const deny = await startApp(t, {
      database,
      plugin: { logEvents: true, onStoreError: 'deny', middleware: { backend: store } },
    })

    assert.deepEqual(await local.statuses(2, '/local'), [200, 429])
    await local.app.smartRateLimit.events.flush()
    assert.deepEqual(await deny.statuses(1, '/deny'), [503])
    await deny.app.smartRateLimit.events.flush()
    const events = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ path, allowed, limit }) => [path, allowed, limit]),
      [
        ['/local', true, 1],
        ['/local', false, 1],
        ['/deny', false, 100],
      ],
    )
  })
})

test('while another connection holds the write lock of the SQLite file, requests are answered in time, and counted on when it lets go', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { app, statuses, log, clock, request } = await startApp(t, {
    database,
    plugin: { storeTimeoutMs: 100, logEvents: true, middleware: { defaultRate: '5/h' } },
  })
  const other = openSqliteFile(database.url.slice('file:'.length))
  atEnd(t, () => other.close())
  assert.deepEqual(await statuses(2, '/'), [200, 200])
  await app.smartRateLimit.events.flush()
  other.exec('BEGIN IMMEDIATE')

  const startedMs = performance.now()
  assert.deepEqual(await statuses(4, '/'), [200, 200, 200, 200])
  assert.ok(performance.now() - startedMs < 1_500)
  assert.equal(outages(log).length, 1)

  other.exec('COMMIT')
  clock.advance(1_000)
  await eventually('the store answers again', async () => {
    clock.advance(1_000)
    await request('/health')
    return app.smartRateLimit.events.stats().dropped === 0 && !(await countedLocally())
  })
  await app.smartRateLimit.events.flush()
  assert.equal(errors(log).length, 1)
  assert.equal(app.smartRateLimit.events.stats().dropped, 0)

  /** Whether the table's counter stands still while a request is answered. */
  async function countedLocally(): Promise<boolean> {
    const count = async () => (await database.client.rateLimitCounter.findFirst())?.count
    const before = await count()
    await request('/')
    return before === (await count())
  }
})

test('a lock that is held for 100 ms only delays: nothing is refused, lost or logged', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { statuses, log, app } = await startApp(t, { database, plugin: { logEvents: true } })
  const other = openSqliteFile(database.url.slice('file:'.length))
  atEnd(t, () => other.close())
  await statuses(1, '/')
  other.exec('BEGIN IMMEDIATE')
  setTimeout(() => other.exec('COMMIT'), 100)

  assert.deepEqual(await statuses(3, '/'), [200, 200, 200])
  await app.smartRateLimit.events.flush()
  assert.deepEqual(app.smartRateLimit.events.stats(), {
    written: 4,
    dropped: 0,
    buffered: 0,
    spooled: 0,
    lastError: null,
  })
  assert.equal((await database.client.rateLimitCounter.findFirst())?.count, 4)
  assert.deepEqual(log, [])
})

async function startWithout(t: TestContext, plugin: RateLimitOptions) {
  const database = `postgresql://nobody@127.0.0.1:${await closedPort()}/none`
  return startApp(t, {
    database: null,
    plugin: { database, ...plugin, middleware: { backend: 'database', ...plugin.middleware } },
  })
}
