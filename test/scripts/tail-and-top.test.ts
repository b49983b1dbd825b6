import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { test } from 'node:test'
import { ratelimit as runRatelimit } from '../../scripts/commands/run.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { forAnyDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { ratelimit } from '../support/scripts.js'

const REFUSED: Partial<RateLimitEvent> = { allowed: false, outcome: 'over_limit', count: 6 }

function of(address: string, event: Partial<RateLimitEvent> = {}): Partial<RateLimitEvent> {
  return { timestampMs: Date.now(), key: `ip:${address}`, client: `ip:${address}`, ...event }
}

forAnyDatabase((_provider, open) => {
  test('tail prints the latest events that pass its filters, and no terminal obeys them', async (t) => {
    const { database, url, schema, close } = await open()
    t.after(close)
    const env = { RATELIMIT_DATABASE_URL: url, RATELIMIT_SCHEMA: schema }
    const tail = async (...args: string[]) => {
      const { status, stdout, stderr } = await ratelimit(['tail', ...args], { env })
      assert.deepEqual([status, stderr], [0, ''])
      return stdout.split('\n').slice(0, -1)
    }
    assert.deepEqual(await tail(), [])

    const timestampMs = Date.UTC(2026, 0, 2, 3, 4, 5, 6)
    await logRows(database, [
      ...Array.from({ length: 2_100 }, () => of('192.0.2.1')),
      // A clock that is a month ahead.
      of('192.0.2.9', { timestampMs: Date.now() + 30 * 86_400_000 }),
      of('203.0.113.7', { ...REFUSED, timestampMs, policy: 'login', method: 'POST', path: '/login/\u001b[2J' }),
      of('203.0.113.8', { outcome: 'over_limit', count: 6, rules: '+team:+login' }),
      of('198.51.100.1', { client: 'user:7', key: 'rule:api:user:7', ruleName: 'api', policy: 'api' }),
    ])
    assert.equal((await tail()).length, 20)
    assert.deepEqual(await tail('--refused'), [
      '2026-01-02T03:04:05.006Z  refused            ip:203.0.113.7      login         POST /login/\\u001b[2J  6/5',
    ])
    assert.match((await tail('--lines', '1')).join(), /Z {2}allowed {12}user:7 +api +GET \/ {2}1\/5$/)
    assert.match((await tail('--client', '203.0.113.8')).join(), / would be refused +ip:203\.0\.113\.8 /)
    for (const [args, found] of [
      [['--client', '203.0.113.0/24'], 2],
      [['--client', '7'], 1],
      [['--client', 'rule:api:user:7'], 1],
      [['--policy', 'login'], 2],
      [['--policy', 'team'], 1],
      [['--path', '/login'], 1],
      // The first page of the log has none.
      [['--client', '192.0.2.1', '--lines', '2000'], 2_000],
      [['--client', '192.0.2.2'], 0],
    ] as const) {
      assert.equal((await tail(...args)).length, found, args.join(' '))
    }
    const [line = ''] = await tail('--refused', '--json')
    assert.deepEqual(JSON.parse(line), {
      timestamp: '2026-01-02T03:04:05.006Z',
      client: 'ip:203.0.113.7',
      key: 'ip:203.0.113.7',
      policy: 'login',
      outcome: 'over_limit',
      rules: '',
      method: 'POST',
      path: '/login/\u001b[2J',
      allowed: false,
      count: 6,
      limit: 5,
      weight: 1,
    })
    const { status, stderr } = await ratelimit(['tail', '--client', ' '], { env })
    assert.equal(status, 2)
    assert.match(stderr, /^ratelimit tail: --client is empty: give an address/)
  })

  test('tail --follow prints each new event once, until it is interrupted', long(), async (t) => {
    const { database, url, schema, close } = await open()
    t.after(close)
    await logRows(database, [of('192.0.2.1'), of('192.0.2.2')])
    const following = start(['tail', '--follow', '--lines', '1'], { url, schema })
    await eventually('the first line', () => /192\.0\.2\.2/.test(following.printed()))
    await logRows(database, [of('192.0.2.3')])
    await eventually('the second line', () => /192\.0\.2\.3/.test(following.printed()))
    await logRows(database, [of('192.0.2.4')])
    await eventually('the third line', () => /192\.0\.2\.4/.test(following.printed()))
    assert.equal(await following.stop(), 0)
    const clients = [...following.printed().matchAll(/ip:(\S+)/g)].map(([, client]) => client)
    assert.deepEqual(clients, ['192.0.2.2', '192.0.2.3', '192.0.2.4'])
  })

  test('top lists the clients with the most refusals, or the most requests', async (t) => {
    const { database, url, schema, close } = await open()
    t.after(close)
    const env = { RATELIMIT_DATABASE_URL: url, RATELIMIT_SCHEMA: schema }
    const top = async (...args: string[]) => (await ratelimit(['top', ...args], { env })).stdout
    assert.equal(await top('--within', '15m'), 'No refused request within 15m: see --by requests.\n')
    assert.equal(await top('--within', '15m', '--by', 'requests'), 'No request within 15m.\n')

    await logRows(database, [
      ...Array.from({ length: 5 }, () => of('192.0.2.1')),
      of('203.0.113.7', { ...REFUSED, policy: 'login' }),
      of('203.0.113.7', { ...REFUSED, policy: 'deny-list', outcome: 'denied' }),
      of('203.0.113.7', { timestampMs: Date.now() - 2 * 3_600_000 }),
    ])
    assert.equal(
      await top(),
      [
        'CLIENT          REQUESTS  REFUSED  WOULD BE REFUSED  DENIED  POLICIES',
        'ip:203.0.113.7         2        1                 0       1  deny-list, login\n',
      ].join('\n'),
    )
    assert.match(await top('--by', 'requests'), /\nip:192\.0\.2\.1 +5 +0 +0 +0 {2}default\nip:203/)
    const { clients } = JSON.parse(await top('--json', '--within', '1d'))
    assert.deepEqual([clients[0].client, clients[0].requests], ['ip:203.0.113.7', 3])
    const ranged = JSON.parse(await top('--json', '--by', 'requests', '--since', '3h', '--until', '1h'))
    assert.deepEqual([ranged.clients[0].client, ranged.clients[0].requests], ['ip:203.0.113.7', 1])
    assert.equal(
      await top('--since', '2020-01-01 14:00', '--until', '15:00'),
      'No refused request 2020-01-01 14:00–15:00 UTC: see --by requests.\n',
    )
    for (const [args, says] of [
      [['--within', 'often'], /^ratelimit top: --within is "often": give 30m, 2h or 7d/],
      [['--within', '1h', '--since', '2h'], /'--since <time>' cannot be used with option '--within <time>'/],
      [['--until', '14:00'], /^ratelimit top: --since is missing: write when the range begins: /],
      [['--since', 'often'], /^ratelimit top: --since is "often": write it as 2026-11-24 14:00, 14:00, yesterday/],
      [['--by', 'name'], /Allowed choices are refused, requests/],
    ] as const) {
      const { status, stderr } = await ratelimit(['top', ...args], { env })
      assert.equal(status, 2)
      assert.match(stderr, says)
    }

    const following = start(['top', '--follow', '--json'], { url, schema })
    await eventually('the first list', () => following.printed().endsWith('\n'))
    assert.equal(await following.stop(), 0)
    assert.equal(JSON.parse(following.printed()).clients.length, 1)
  })
})

test('commands that read fail where there is no database, and create none', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-none-'))
  t.after(() => rm(folder, { recursive: true }))
  const file = join(folder, 'wrong.db')
  const commands = [
    ['tail'],
    ['top'],
    ['tail', '--follow'],
    ['top', '--follow'],
    ['override', 'list'],
    ['rules', 'export'],
    ['token', 'list'],
    ['preview', '--name', 'api'],
    ['explain', '--path', '/login', '--ip', '203.0.113.7'],
    ['counters', 'reset', 'user:7'],
  ]
  for (const args of commands) {
    const { status, stdout, stderr } = await ratelimit(args, { env: { RATELIMIT_DATABASE_URL: `file:${file}` } })
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^ratelimit [a-z ]+: There is no database at /)
    assert.ok(stderr.endsWith(` ${file}\n`), stderr)
  }
  assert.deepEqual(await readdir(folder), [])
})

/** Starts a command that goes on until it is interrupted. */
function start(args: readonly string[], { url, schema }: { readonly url: string; readonly schema: string }) {
  const controller = new AbortController()
  const stdout = new PassThrough()
  let printed = ''
  stdout.setEncoding('utf8').on('data', (chunk) => {
    printed += chunk
  })
  const ended = runRatelimit(args, {
    stdin: Readable.from([]),
    stdout,
    stderr: new PassThrough(),
    env: { RATELIMIT_DATABASE_URL: url, RATELIMIT_SCHEMA: schema },
    signal: controller.signal,
  })
  return {
    printed: () => printed,
    stop() {
      controller.abort()
      return ended
    },
  }
}
