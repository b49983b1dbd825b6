/** A rule edited in one process is obeyed by all others within two seconds. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from '../../src/ground/time/clock.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { countStatements } from '../support/count-statements.js'
import { forEachDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { LOADER, modulePath } from '../support/modules.js'
import { ratelimit } from '../support/scripts.js'

const EDITOR = modulePath('test/support/rule-editor')
/** Of the fake clock. */
const WITHIN_MS = 2_000
/** Of real time: the same, and what a busy machine takes on top. */
const ALLOWED_MS = 20_000

forEachDatabase((provider) => {
  test(
    'an edit by another process is obeyed soon, under steady traffic, by the clock on the wall',
    long(),
    async (t) => {
      const { database, limit } = await start(t, provider, systemClock)
      const editor = await startEditor(t, database, 'client', '7/m')
      assert.equal(await limit(), '2')

      await editor.edit()
      await eventually('the new limit', async () => (await limit()) === '7', ALLOWED_MS)
    },
  )

  for (const door of ['client', 'sql'] as const) {
    test(`an edit by another process (${door}) is obeyed by the first request after two seconds`, long(), async (t) => {
      const { database, clock, limit } = await start(t, provider)
      const editor = await startEditor(t, database, door, '7/m')
      assert.equal(await limit(), '2')

      await editor.edit()
      clock.advance(WITHIN_MS)
      assert.equal(await limit(), '7')
    })
  }

  test('reload-rules reaches a server whose rules changed behind the triggers', async (t) => {
    const { database, clock, limit } = await start(t, provider)
    assert.equal(await limit(), '2')
    await withoutTriggers(database)
    clock.advance(WITHIN_MS)
    assert.equal(await limit(), '2')
    const env = { RATELIMIT_DATABASE_URL: database.url }
    const { status } = await ratelimit(['reload-rules', '--schema', database.schema], { env })

    assert.equal(status, 0)
    clock.advance(WITHIN_MS)
    assert.equal(await limit(), '7')
  })

  test('without traffic nothing is asked of the database', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { limit } = await start(t, provider)
    await limit()
    const count = countStatements()
    t.after(() => count.stop())
    // One poll follows the last request.
    for (let second = 0; second < 60; second++) {
      t.mock.timers.tick(1_000)
      for (let turn = 0; turn < 20; turn++) await setImmediate()
    }

    assert.equal(count.statements.length, 1, count.statements.join('\n'))
    assert.equal(count.of('rate_limit_revision').length, 1)
  })
})

async function start(t: TestContext, provider: Provider, realClock?: Clock) {
  const database = await openDatabase(t, provider)
  await database.client.rateLimitRule.create({
    data: { name: 'api', pathPattern: '^/api/', rate: '2/m', block: false },
  })
  const { request, clock } = await startApp(t, {
    database,
    plugin: {
      useDynamicRules: true,
      middleware: { backend: 'memory' },
      ...(realClock === undefined ? {} : { clock: realClock }),
    },
  })
  return { database, clock, limit: async () => (await request('/api/x')).headers['x-ratelimit-limit'] }
}

async function startEditor(t: TestContext, { url, schema }: TestDatabase, door: string, rate: string) {
  const child: ChildProcess = spawn(process.execPath, [...LOADER, EDITOR, url, schema, door, 'api', rate], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.after(() => child.kill())
  const { stdin, stdout } = child
  assert.ok(stdin !== null && stdout !== null)
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
  assert.equal((await lines.next()).value, 'ready')
  return {
    async edit() {
      stdin.write('now\n')
      assert.equal((await lines.next()).value, 'done')
    },
  }
}

/** Changes the rate while the triggers are off, so that the revision does not tell. */
async function withoutTriggers({ database }: TestDatabase): Promise<void> {
  const { table, provider } = database.dialect
  if (provider === 'sqlite') await database.execute('DROP TRIGGER rate_limit_revision_bump')
  else await database.execute(`ALTER TABLE ${table('rate_limit_rule')} DISABLE TRIGGER USER`)
  await database.execute(`UPDATE ${table('rate_limit_rule')} SET rate = '7/m'`)
}
