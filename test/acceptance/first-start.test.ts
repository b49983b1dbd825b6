/** A newcomer registers the plugin without any option, in an empty folder. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import { long } from '../support/long.js'
import { LOADER, moduleUrl } from '../support/modules.js'

const PLUGIN = moduleUrl('src/index')

const FIRST_APP = `
  // The program starts with a minute, so that all its requests fall into one window.
  const { now } = Date
  const untilNextMinute = 60_000 - (now() % 60_000)
  Date.now = () => now() + untilNextMinute
  const { default: Fastify } = await import(${JSON.stringify(import.meta.resolve('fastify'))})
  const { default: rateLimit, rateLimitPlugin } = await import(${JSON.stringify(PLUGIN)})
  if (rateLimit !== rateLimitPlugin) throw new Error('The default export is not the plugin')
  const app = Fastify()
  await app.register(rateLimitPlugin)
  app.get('/', async () => 'ok')
  await app.listen({ port: 0, host: '127.0.0.1' })
  const answers = []
  for (let count = 1; count <= 102; count++) {
    const { status, headers } = await fetch('http://127.0.0.1:' + app.server.address().port + '/')
    answers.push([status, headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')])
  }
  const { client, events } = app.smartRateLimit
  await events.flush()
  console.log(JSON.stringify({ answers, logged: await client.rateLimitEvent.count() }))
  await app.close()
`

interface Seen {
  readonly answers: readonly (readonly [status: number, limit: string, remaining: string])[]
  readonly logged: number
}

/** Runs a program in a folder, without the settings of the machine it runs on. */
async function runIn(folder: string, program: string): Promise<string> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('RATELIMIT_')))
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...LOADER, '--input-type=module', '--eval', program],
    { cwd: folder, env, timeout: 60_000 },
  )
  return stdout
}

test(
  'with no option at all a client gets 100 requests a minute, counted in ratelimit.db of the working directory',
  long(),
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-first-'))
    t.after(() => rm(folder, { recursive: true, force: true }))
    const seen: Seen = JSON.parse(await runIn(folder, FIRST_APP))

    assert.deepEqual(seen.answers[0], [200, '100', '99'])
    assert.deepEqual(seen.answers[99], [200, '100', '0'])
    assert.deepEqual(seen.answers[100], [429, '100', '0'])
    assert.equal(seen.answers.filter(([status]) => status === 200).length, 100)
    assert.equal(seen.logged, 0)

    assert.ok((await readdir(folder)).includes('ratelimit.db'))
    const file = openSqliteFile(join(folder, 'ratelimit.db'), { readonly: true })
    t.after(() => file.close())
    const counted = file.prepare('SELECT key FROM rate_limit_counter WHERE count > 100')
    assert.deepEqual(counted.all(), [{ key: 'default|ip:127.0.0.1' }])
  },
)

test('with counters in memory and events and rules off, no database is opened', long(), async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-memory-'))
  t.after(() => rm(folder, { recursive: true, force: true }))

  await runIn(
    folder,
    FIRST_APP.replace('(rateLimitPlugin)', "(rateLimitPlugin, { middleware: { backend: 'memory' } })")
      .replace('await events.flush()', '')
      .replace('await client.rateLimitEvent.count()', '0'),
  )

  assert.deepEqual(await readdir(folder), [])
})
