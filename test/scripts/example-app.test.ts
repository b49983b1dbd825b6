import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { DAY_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'
import { portOf } from '../support/build-app.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { runScript, startScript } from '../support/scripts.js'

interface Running {
  /** Everything it has printed. */
  readonly printed: string
  readonly origin: string
  stop(): Promise<number | null>
}

/** The exit code after SIGTERM, of which Windows does not tell a process. */
const ENDED = process.platform === 'win32' ? null : 0

describe('the example app', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ratelimit-example-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))

  async function start(args: string[] = [], lastLine = '/ratelimit/dashboard/\n', env = {}): Promise<Running> {
    const child = startScript('example-app', args, { cwd: folder, env: { PORT: '0', ...env } })
    child.stderr.pipe(process.stderr)
    let printed = ''
    for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      printed += chunk
      if (printed.includes(lastLine)) break
    }
    async function stop(): Promise<number | null> {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
      return child.exitCode
    }
    return { printed, origin: /^Example app: +(\S+)\/$/m.exec(printed)?.[1] ?? '', stop }
  }

  function post(url: string, body: object): Promise<Response> {
    return fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  }

  test(
    'limits its routes, lets staff in with the password of the first start, and logs what it decided',
    long(),
    async () => {
      const { printed, origin, stop } = await start()
      const password = /^Staff password: +(\S{16}) /m.exec(printed)?.[1] ?? ''
      assert.notEqual(password, '')
      try {
        const items = await fetch(`${origin}/api/items`)
        assert.deepEqual([items.status, items.headers.get('x-ratelimit-limit')], [200, '100'])
        const created = await post(`${origin}/api/items`, { name: 'another item' })
        assert.deepEqual([created.status, created.headers.get('x-ratelimit-limit')], [201, '20'])
        const guesses = await Promise.all(
          // More than two windows allow, should a minute end meanwhile.
          Array.from({ length: 12 }, () => post(`${origin}/auth/login`, { name: 'a', password: 'b' })),
        )
        assert.deepEqual(new Set(guesses.map(({ status }) => status)), new Set([401, 429]))

        assert.equal((await fetch(`${origin}/ratelimit/dashboard/`)).status, 403)
        const signedIn = await fetch(`${origin}/ratelimit/dashboard/sign-in`, {
          method: 'POST',
          body: new URLSearchParams({ account: 'staff', password }),
          redirect: 'manual',
        })
        const [cookie = ''] = signedIn.headers.getSetCookie()
        const dashboard = await fetch(`${origin}/ratelimit/dashboard/`, {
          headers: { cookie: cookie.split(';')[0] ?? '' },
        })
        assert.equal(dashboard.status, 200)
        assert.match(await dashboard.text(), /api-writes/)
      } finally {
        assert.equal(await stop(), ENDED)
      }

      const client = createRateLimitClient({ database: `file:${join(folder, 'ratelimit.db')}` })
      try {
        assert.equal(await client.rateLimitEvent.count(), 14)
        assert.equal(await client.rateLimitEvent.count({ where: { ruleName: 'api-writes' } }), 1)
      } finally {
        await client.$disconnect()
      }
      const file = join(folder, 'ratelimit-staff.json')
      assert.equal((await stat(file)).mode & 0o777, 0o600)
      assert.doesNotMatch(await readFile(file, 'utf8'), new RegExp(password))
    },
  )

  test('a demo has a week of events, gets new ones, takes no settings, and leaves no database', long(), async () => {
    const temporary = join(folder, 'temporary')
    const ended = startScript('ratelimit', ['--version'])
    await once(ended, 'exit')
    const [killed, running] = [ended.pid, process.pid].map((pid) => `ratelimit-demo-${pid}-a1B2c3`)
    for (const name of [killed, running]) await mkdir(join(temporary, name ?? ''), { recursive: true })
    const settings = { TMPDIR: temporary, RATELIMIT_ENABLE: 'false' }
    const { printed, stop } = await start(['--demo'], 'ratelimit.db\n', settings)
    const database = /file:\S+/.exec(printed)?.[0] ?? ''
    const client = createRateLimitClient({ database })
    try {
      const first = await client.rateLimitEvent.findFirst({ orderBy: { timestamp: 'asc' } })
      assert.ok(Date.now() - Number(first?.timestamp) > 6.9 * DAY_MS)
      const refused = { allowed: false, timestamp: { lt: new Date(Date.now() - MINUTE_MS) } }
      const scraper = await client.rateLimitEvent.count({
        where: { ...refused, client: { startsWith: 'ip:203.0.113.' } },
      })
      const customer = await client.rateLimitEvent.count({ where: { ...refused, client: 'user:1007' } })
      assert.ok(scraper > 2 * customer && customer > 100, `${scraper} and ${customer} refusals`)
      const [, authorization = '', url = ''] = /'authorization: (Bearer \S+)' (\S+)$/m.exec(printed) ?? []
      const reported = await fetch(url, { headers: { authorization } })
      const { incidents } = Object(await reported.json())
      assert.deepEqual(
        incidents.map(({ scope, state }: { scope: string; state: string }) => [scope, state]).toSorted(),
        [
          ['203.0.113.0/24', 'open'],
          ['ip:192.0.2.200', 'open'],
          ['policy:products', 'open'],
          ['user:1007', 'open'],
        ],
      )
      const last = await client.rateLimitEvent.findFirst({ orderBy: { id: 'desc' } })
      await eventually(
        'a new event',
        async () => (await client.rateLimitEvent.count({ where: { id: { gt: last?.id ?? 0 } } })) > 0,
      )
    } finally {
      await client.$disconnect()
      assert.equal(await stop(), ENDED)
    }
    const left = await readdir(temporary)
    assert.deepEqual(
      left.filter((name) => name.startsWith('ratelimit-')),
      [running],
    )
  })

  test(
    'prints the password once, and creates its rule once; a port in use is one line and status 1',
    long(),
    async () => {
      const other = createServer().listen(0, '127.0.0.1')
      await once(other, 'listening')
      try {
        const port = portOf({ server: other })
        // Node 20 warns of itself.
        const env = { PORT: String(port), NODE_NO_WARNINGS: '1' }
        assert.deepEqual(await runScript('example-app', [], { cwd: folder, env }), {
          status: 1,
          stdout: '',
          stderr: `Port ${port} of 127.0.0.1 is in use: stop the other server, or set PORT\n`,
        })
        const demo = await runScript('ratelimit', ['demo', '--port', String(port)])
        assert.deepEqual([demo.status, demo.stdout], [1, ''])
        assert.match(demo.stderr, /^ratelimit demo: Port \d+ of .* is in use: stop the other server, or set --port$/m)
      } finally {
        other.close()
      }
      const client = createRateLimitClient({ database: `file:${join(folder, 'ratelimit.db')}` })
      assert.equal(await client.rateLimitRule.count(), 1)
      await client.$disconnect()
    },
  )

  test('a port that is none, and accounts that are none, are one line and status 1', async () => {
    const wrongPort = await runScript('example-app', [], { cwd: folder, env: { PORT: '65536' } })
    assert.deepEqual([wrongPort.status, wrongPort.stderr], [1, 'PORT is "65536": give a number, 0 to 65535\n'])
    await writeFile(join(folder, 'ratelimit-staff.json'), '{ "accounts": ')
    const wrongAccounts = await runScript('example-app', [], { cwd: folder, env: { PORT: '0' } })
    assert.equal(wrongAccounts.status, 1)
    assert.match(wrongAccounts.stderr, /^\.\/ratelimit-staff\.json does not hold staff accounts: delete it, .*\n$/)
  })
})
