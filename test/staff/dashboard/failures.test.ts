import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { dashboardPlugin } from '../../../src/dashboard.js'
import { allDatabases, databaseFor } from '../../../src/database/database.js'
import { startApp } from '../../support/build-app.js'
import { forAnyDatabase } from '../../support/databases.js'
import { cookieOf, DASHBOARD, PASSWORD, startWithStaff } from '../../support/staff-app.js'

forAnyDatabase((provider) => {
  test('a missing table is a 503 that names the remedy to staff', async (t) => {
    const { app, request, log } = await startWithStaff(t, provider, { isStaff: () => true }, { logEvents: false })
    for (const table of ['rate_limit_event', 'rate_limit_watermark']) await dropTable(app, table)

    for (const path of ['', 'offender.html?key=a']) {
      const page = await request(DASHBOARD + path)
      assert.equal(page.status, 503)
      assert.match(page.text, /The database must be migrated/)
      assert.match(page.text, /ratelimit migrate/)
    }
    for (const path of ['offenders.csv', 'offender/?key=a']) {
      const { status, headers, text } = await request(DASHBOARD + path)
      assert.equal(status, 503)
      assert.equal(headers['content-disposition'], undefined)
      assert.match(JSON.parse(text).error, /^The tables of the rate limiter are missing: .*"ratelimit migrate"/)
    }
    assert.equal(log.filter(({ err }) => err !== undefined).length, 1)
  })

  test('without the table of sessions staff get the reason, and strangers are still refused', async (t) => {
    const { app, request, signIn } = await startWithStaff(t, provider)
    const headers = { cookie: cookieOf((await signIn(PASSWORD)).headers) }
    await dropTable(app, 'rate_limit_staff_session')

    assert.equal((await request(DASHBOARD, { headers })).status, 503)
    assert.equal((await request(DASHBOARD)).status, 403)
    assert.equal((await signIn('wrong')).status, 403)
    assert.equal((await signIn(PASSWORD)).status, 503)
  })
})

test('a page that cannot be rendered says only that to readers, and the log has the reason', async (t) => {
  const templates = await mkdtemp(join(tmpdir(), 'ratelimit-templates-'))
  t.after(() => rm(templates, { recursive: true, force: true }))
  await writeFile(join(templates, 'dashboard.hbs'), '{{> no-such-partial}}')
  const { request, log } = await startWithStaff(t, 'sqlite', { isStaff: () => true, templates })
  const { status, text } = await request(DASHBOARD)

  assert.equal(status, 500)
  assert.match(text, /Something went wrong/)
  assert.doesNotMatch(text, /no-such-partial|node_modules/)
  assert.match(String(log[0]?.err?.message), /no-such-partial/)
})

test('an isStaff that throws or rejects is a refusal, and is logged', async (t) => {
  for (const isStaff of [throws, rejects]) {
    const { request, log } = await startWithStaff(t, 'sqlite', { isStaff })
    assert.equal((await request(DASHBOARD)).status, 403)
    assert.deepEqual(
      log.map(({ msg, err }) => [msg, err?.message]),
      [['isStaff of dashboardPlugin failed: the request is refused', 'no session store']],
    )
  }
})

test('a client that is refused again and again is sent away for the rest of the minute; staff never are', async (t) => {
  let staff = false
  const { request, statuses, clock } = await startWithStaff(t, 'sqlite', { isStaff: () => staff })
  const from = '203.0.113.7'
  assert.deepEqual(
    await statuses(60, DASHBOARD, { from }),
    Array.from({ length: 60 }, () => 403),
  )

  clock.advance(15_000)
  const { status, headers, text } = await request(`${DASHBOARD}offender/`, { from })
  assert.deepEqual([status, headers['retry-after']], [429, '45'])
  assert.deepEqual(JSON.parse(text), { error: 'Too many refused requests: try again in 45 seconds.' })
  assert.equal((await request(DASHBOARD, { from: '203.0.113.8' })).status, 403)

  staff = true
  assert.equal((await request(DASHBOARD, { from })).status, 200)
  staff = false
  clock.advance(45_000)
  assert.equal((await request(DASHBOARD, { from })).status, 403)
})

test('the limit of refused requests also holds in process memory', async (t) => {
  const { statuses } = await startApp(t, {
    database: null,
    routes: async (app) => {
      await app.register(dashboardPlugin, { prefix: '/ops' })
    },
  })
  assert.deepEqual((await statuses(61, DASHBOARD)).slice(59), [403, 429])
})

function throws(): boolean {
  throw new Error('no session store')
}

async function rejects(): Promise<boolean> {
  throw new Error('no session store')
}

async function dropTable(app: FastifyInstance, name: string): Promise<void> {
  for (const database of allDatabases(databaseFor(app.smartRateLimit.client))) {
    await database.execute(`DROP TABLE ${database.dialect.table(name)}`)
  }
}
