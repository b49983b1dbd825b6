/** A rule edited in one process is obeyed by all others within two seconds. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { systemClock } from '../../src/clock.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { countStatements } from '../support/count-statements.js'
import { forEachDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { ratelimit } from '../support/scripts.js'

const EDITOR = join(import.meta.dirname, '../support/rule-editor.ts')
const WITHIN_MS = 2_000

forEachDatabase((provider) => {
  for (const door of ['client', 'sql'] as const) {
    test(`an edit by another process (${door}) is obeyed within two seconds, under steady traffic`, async (t) => {
      const { database, limit } = await start(t, provider)
      const editor = await startEditor(t, database, door, '7/m')
      assert.equal(await limit(), '2')

      await editor.edit()
      await eventually('the new limit', async () => (await limit()) === '7', WITHIN_MS)
    })
  }

  test('an edit by another process is obeyed by the first request after two quiet seconds', async (t) => {
    const { database, limit } = await start(t, provider)
    const editor = await startEditor(t, database, 'sql', '7/m')
    assert.equal(await limit(), '2')
    await editor.edit()
    await delay(WITHIN_MS)

    assert.equal(await limit(), '7')
  })

  test('reload-rules reaches a server whose rules changed behind the triggers', async (t) => {
    const { database, limit } = await start(t, provider)
    assert.equal(await limit(), '2')
    await withoutTriggers(database)
    await eventually('the poll after the last change', async () => (await limit()) === '2')
    const env = { RATELIMIT_DATABASE_URL: database.url }
    const { status } = await ratelimit(['reload-rules', '--schema', database.schema], { env })

    assert.equal(status, 0)
    await eventually('the new limit', async () => (await limit()) === '7', WITHIN_MS)
  })

  test('without traffic nothing is asked of the database', async (t) => {
    const { limit } = await start(t, provider)
    await limit()
    // One poll may follow the last request.
    await delay(1_500)
    const count = countStatements()
    t.after(() => count.stop())
    await delay(2_500)

    assert.deepEqual(count.statements, [])
  })
})

async function start(t: TestContext, provider: Provider) {
  const database = await openDatabase(t, provider)
  await database.client.rateLimitRule.create({
    data: { name: 'api', pathPattern: '^/api/', rate: '2/m', block: false },
  })
  const { request } = await startApp(t, {
    database,
    plugin: { useDynamicRules: true, clock: systemClock, middleware: { backend: 'memory' } },
  })
  return { database, limit: async () => (await request('/api/x')).headers['x-ratelimit-limit'] }
}

async function startEditor(t: TestContext, { url, schema }: TestDatabase, door: string, rate: string) {
  const child: ChildProcess = spawn(process.execPath, ['--import', 'tsx', EDITOR, url, schema, door, 'api', rate], {
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
