/** What a SQLite file holds (addresses, users, sessions) is for the account that the server runs as. */
import assert from 'node:assert/strict'
import { chmodSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import { createAnalytics, createRateLimitClient, DatabaseStore, migrate } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { startApp, WARN } from '../support/build-app.js'
import { ratelimit } from '../support/scripts.js'
import { watchThreads } from '../support/threads.js'

/** The modes of the files in a folder, in octal, by their names. */
function modesIn(folder: string): Record<string, string> {
  return Object.fromEntries(readdirSync(folder).map((name) => [name, modeOf(join(folder, name))]))
}

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8)
}

/** An empty folder, and a process whose new files are for all users unless they are made otherwise. */
async function openFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-modes-'))
  const umask = process.umask(0)
  atEnd(t, async () => {
    process.umask(umask)
    await rm(folder, { recursive: true, force: true })
  })
  return folder
}

describe('a SQLite file', { skip: process.platform === 'win32' && 'modes mean nothing on Windows' }, () => {
  test('is created for its owner alone, and so are its log and its index, whatever the umask and whichever thread', async (t) => {
    const folder = await openFolder(t)
    const threads = watchThreads(t)
    const { app, statuses, log } = await startApp(t, {
      database: null,
      plugin: {
        database: `file:${join(folder, 'a.db')}`,
        logEvents: true,
        useDynamicRules: true,
        middleware: { backend: 'database', defaultRate: '1000/h' },
      },
    })
    for (let round = 0; round < 3; round++) {
      assert.deepEqual(await statuses(2, '/'), [200, 200])
      await app.smartRateLimit.events.flush()
      await app.smartRateLimit.analytics.getTrafficSummary()
    }
    assert.equal(threads.length, 2)
    assert.equal(await app.smartRateLimit.client.rateLimitEvent.count(), 6)
    assert.deepEqual(modesIn(folder), { 'a.db': '600', 'a.db-shm': '600', 'a.db-wal': '600' })
    assert.deepEqual(log, [])
  })

  for (const [name, open] of [
    ['migrate()', (database) => migrate({ database })],
    [
      'a client that is connected before it is asked',
      async (database) => {
        const client = createRateLimitClient({ database })
        await client.$connect()
        await client.$disconnect()
      },
    ],
    [
      'reports without a server',
      async (database) => {
        const analytics = createAnalytics({ database })
        await analytics.getTrafficSummary()
        await analytics.close()
      },
    ],
    [
      'a store that a host makes',
      async (database) => {
        const store = new DatabaseStore({ database })
        await store.reset(['a'])
        await store.close()
      },
    ],
    [
      'a command',
      async (database) => {
        const { status } = await ratelimit(['migrate'], { env: { RATELIMIT_DATABASE_URL: database } })
        assert.equal(status, 0)
      },
    ],
  ] as const satisfies readonly (readonly [string, (url: string) => Promise<unknown>])[]) {
    test(`that ${name} creates is for its owner alone`, async (t) => {
      const folder = await openFolder(t)
      await open(`file:${join(folder, 'a.db')}`)
      assert.equal(modeOf(join(folder, 'a.db')), '600')
    })
  }

  for (const mode of [0o644, 0o640, 0o622]) {
    test(`of mode ${mode.toString(8)} is warned about once, with the remedy, and keeps its mode`, async (t) => {
      const folder = await openFolder(t)
      const path = join(folder, 'a.db')
      await migrate({ database: `file:${path}` })
      chmodSync(path, mode)
      const plugin = { database: `file:${path}`, middleware: { backend: 'database' as const } }
      const { statuses, log } = await startApp(t, { database: null, plugin })
      assert.deepEqual(await statuses(2, '/'), [200, 200])
      assert.deepEqual(
        log.map(({ level, msg }) => [level, msg]),
        [
          [
            WARN,
            `Rate limit database: other users of this machine may read or change ${path} (mode ${mode.toString(8)}): run chmod 600 '${path}'`,
          ],
        ],
      )
      assert.equal(modeOf(path), mode.toString(8))
    })
  }

  test('in a folder where all users may replace it is warned about, unless they may not replace those of others', async (t) => {
    const folder = await openFolder(t)
    const path = join(folder, 'a.db')
    for (const [mode, lines] of [
      [0o755, []],
      [0o1777, []],
      [
        0o777,
        [
          `Rate limit database: every user of this machine can replace ${path} by another file, which this server would then use: run chmod o-w '${folder}'`,
        ],
      ],
    ] as const) {
      chmodSync(folder, mode)
      const plugin = { database: `file:${path}`, middleware: { backend: 'database' as const } }
      const { log } = await startApp(t, { database: null, plugin })
      assert.deepEqual(
        log.map(({ msg }) => msg),
        lines,
      )
    }
  })

  test('whose log is for others is warned about too, and so is one behind a link that led nowhere', async (t) => {
    const folder = await openFolder(t)
    const path = join(folder, 'a.db')
    await migrate({ database: `file:${path}` })
    const other = openSqliteFile(path)
    atEnd(t, () => other.close())
    other.exec('CREATE TABLE other (id)')
    chmodSync(`${path}-wal`, 0o640)
    symlinkSync(join(folder, 'elsewhere.db'), join(folder, 'link.db'))
    for (const [name, exposed] of [
      ['a.db', 'a.db-wal'],
      ['link.db', 'link.db'],
    ] as const) {
      const plugin = { database: `file:${join(folder, name)}`, middleware: { backend: 'database' as const } }
      const { log } = await startApp(t, { database: null, plugin })
      assert.equal(log.length, 1)
      assert.ok(log[0]?.msg.includes(`${join(folder, exposed)} (mode `), log[0]?.msg)
    }
  })

  test('of a server that opens none is not looked for', async (t) => {
    const folder = await openFolder(t)
    writeFileSync(join(folder, 'a.db'), '')
    const { log } = await startApp(t, { database: null, plugin: { database: `file:${join(folder, 'a.db')}` } })
    assert.deepEqual(log, [])
  })
})
