/** What can befall a SQLite file under hundreds of requests. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Database, databaseFor } from '../../src/database/database.js'
import { readRevision } from '../../src/database/revision.js'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import { DatabaseStore, migrate, type RateLimitOptions } from '../../src/index.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp, type TestApp, WARN } from '../support/build-app.js'
import { countStatements, type StatementCount } from '../support/count-statements.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { watchThreads } from '../support/threads.js'
import { type Fault, proveFault } from '../support/three-apps.js'

for (const [where, logsEvents] of [
  ['of a server that only limits', false],
  ['of a server that logs events too', true],
] as const) {
  test(`the SQLite file in mid-load ${where}: another process holds the write lock for long`, long(), async (t) => {
    const { url, other } = await openFile(t)

    await proveFaultWhere(logsEvents, t, {
      url,
      begin: () => other.exec('BEGIN IMMEDIATE'),
      end: () => other.exec('COMMIT'),
    })
  })

  test(`the SQLite file in mid-load ${where}: loses the table, which is made again`, long(), async (t) => {
    const { url, other } = await openFile(t)
    const schema = other.prepare(
      "SELECT sql FROM sqlite_master WHERE tbl_name = 'rate_limit_counter' AND sql IS NOT NULL",
    )
    const remake = schema.all().map((row) => String(Object(row).sql))

    await proveFaultWhere(logsEvents, t, {
      url,
      begin: () =>
        other.exec(
          'BEGIN IMMEDIATE; CREATE TABLE kept AS SELECT * FROM rate_limit_counter; DROP TABLE rate_limit_counter; COMMIT',
        ),
      // In one transaction, since a server that meets the empty table begins to count anew.
      end: () =>
        other.exec(
          ['BEGIN IMMEDIATE', ...remake, 'INSERT INTO rate_limit_counter SELECT * FROM kept', 'COMMIT'].join(';'),
        ),
    })
  })

  // A probe of a client without a counter writes nothing, so that a full disk seems to answer: the log says so in turn.
  const flaps = 'the log says in turn that a store on a full disk fails and answers'
  test(`the SQLite file in mid-load ${where}: the disk is full`, long(flaps), async (t) => {
    const { url, other } = await openFile(t)
    // Room for one more page would end the outage now and then: the table gets no smaller while it lasts.
    other.exec('CREATE TABLE filler (bytes BLOB)')

    await proveFaultWhere(logsEvents, t, {
      url,
      async begin(apps) {
        // Every write needs a page from now on, before there are none: the outage has one beginning.
        other.exec(
          'CREATE TRIGGER needs_a_page BEFORE INSERT ON rate_limit_counter BEGIN INSERT INTO filler VALUES (zeroblob(100000)); END',
        )
        // No less than there are.
        await limitPages(apps, 1)
      },
      async end(apps) {
        await limitPages(apps, 1_000_000)
        other.exec('DROP TRIGGER needs_a_page')
      },
    })
  })
}

for (const logEvents of [false, true]) {
  const where = logEvents ? 'with threads' : 'without threads'

  test(
    `servers ${where} use the file that replaces theirs: the limit holds once, its rules apply, no event is lost`,
    long(),
    async (t) => {
      const { url, path } = await openFile(t)
      const plugin: RateLimitOptions = {
        database: url,
        logEvents,
        useDynamicRules: true,
        middleware: { backend: 'database', defaultRate: '1000000/d' },
      }
      const apps = [
        await startApp(t, { database: null, plugin }),
        await startApp(t, { database: null, plugin }),
      ] as const
      for (const { statuses } of apps) await statuses(2, '/')
      await apps[0].app.smartRateLimit.client.rateLimitOverride.count()
      const { client, backup } = await openBackup(t, path)
      await client.rateLimitRule.create({ data: { name: 'restored', pathPattern: '^/', rate: '10/d' } })
      await client.$disconnect()

      replaceBy(path, backup)
      for (const { app, log } of apps) {
        await eventually(
          'the rule is in force',
          async () => (await app.inject('/')).headers['x-ratelimit-limit'] === '10',
        )
        assert.deepEqual(
          log.map(({ msg }) => msg),
          [`Rate limit database: ${url} was replaced: the new file is used from now on`],
        )
      }
      const database = new Database(url)
      atEnd(t, () => database.close())
      const left = Number((await apps[0].app.inject('/')).headers['x-ratelimit-remaining'])
      assert.ok(left > 0 && left < 9, `${left} left`)
      const codes = [...(await apps[0].statuses(6, '/')), ...(await apps[1].statuses(6, '/'))]
      assert.equal(codes.filter((code) => code === 200).length, left)
      assert.equal(await apps[1].app.smartRateLimit.client.rateLimitRule.count(), 1)
      assert.equal((await apps[0].app.smartRateLimit.health()).ok, true)
      for (const { app } of apps) await app.close()
      if (!logEvents) return
      // Those of before, and of the last second before it was noticed, are in the file that was replaced.
      const written = apps.reduce((sum, { app }) => sum + app.smartRateLimit.events.stats().written, 0)
      const inFile = (await database.query<{ n: number }>('SELECT count(*) AS n FROM rate_limit_event'))[0]?.n ?? 0
      assert.ok(apps.every(({ app }) => app.smartRateLimit.events.stats().dropped === 0))
      assert.ok(written - inFile >= 4 && inFile >= 12, `${written} written, ${inFile} in the file`)
    },
  )

  test(
    `a server ${where} whose file is gone says so, makes no empty one, and goes on with the one that is put there`,
    long(),
    async (t) => {
      const { url, path } = await openFile(t)
      const { app, log, statuses } = await startApp(t, {
        database: null,
        plugin: {
          database: url,
          logEvents,
          onStoreError: 'deny',
          middleware: { backend: 'database', defaultRate: '1000000/d' },
        },
      })
      const { client, backup } = await openBackup(t, path)
      await client.$disconnect()
      await statuses(2, '/')
      await app.smartRateLimit.events.flush()

      for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
      await eventually('the store fails', async () => (await app.inject('/')).statusCode === 503)
      const health = await app.smartRateLimit.health()
      assert.deepEqual([health.ready, health.checks.database.status], [false, 'failing'])
      // What was written before that is in the deleted file.
      const { written } = app.smartRateLimit.events.stats()
      assert.match(health.checks.database.detail, /ratelimit.*is gone: move a database there, or restart the servers/)
      const lines = () => log.filter(({ level }) => level >= WARN).map(({ msg }) => msg)
      await eventually('the log says so', () => lines().some((line) => line.startsWith('Rate limit store failed')))
      if (logEvents) await eventually('of the events too', () => lines().some((line) => line.includes('events cannot')))
      assert.equal(new Set(lines()).size, lines().length)
      const withStack = log.filter(({ msg, err }) => err !== undefined && !msg.includes('unavailable'))
      assert.equal(withStack.length, 1)
      assert.equal(existsSync(path), false)

      // A copy that is not finished is not used.
      writeFileSync(path, '')
      assert.equal((await app.inject('/')).statusCode, 503)
      replaceBy(path, backup)
      await eventually('it is used', async () => (await app.inject('/')).statusCode === 200)
      assert.equal((await app.smartRateLimit.health()).checks.database.status, 'ok')
      await app.close()
      if (!logEvents) return
      const database = new Database(url)
      atEnd(t, () => database.close())
      const stats = app.smartRateLimit.events.stats()
      const [counted] = await database.query<{ n: number }>('SELECT count(*) AS n FROM rate_limit_event')
      assert.equal(stats.dropped, 0)
      assert.equal(counted?.n, stats.written - written)
    },
  )
}

for (const [name, replace, message] of [
  [
    'a folder',
    (path: string) => {
      mkdirSync(path)
      utimesSync(path, 0, 0)
    },
    /unable to open database file/,
  ],
  [
    'what is no database',
    (path: string) => {
      writeFileSync(path, 'no database'.repeat(1_000))
      utimesSync(path, 0, 0)
    },
    /file is not a database/,
  ],
  ['a file that is still being copied', (path: string) => copyFileSync(`${path}.backup`, path), /is being replaced/],
  [
    'a file beside the log of the old one',
    (path: string) => {
      renameSync(`${path}.wal`, `${path}-wal`)
      replaceBy(path, `${path}.backup`, false)
    },
    /remove .*-wal and .*-shm/,
  ],
] as const) {
  test(`a SQLite file that is replaced by ${name} is not used; the one that follows is`, async (t) => {
    const { url, path } = await openFile(t)
    const database = new Database(url)
    atEnd(t, () => database.close())
    const { client, backup } = await openBackup(t, path)
    await client.rateLimitRule.create({ data: { name: 'restored', pathPattern: '^/', rate: '10/d' } })
    await client.$disconnect()
    const later = skipTime(t)
    await database.short.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")
    later()
    await database.query('SELECT 1')

    rmSync(path)
    rmSync(`${path}-shm`)
    renameSync(`${path}-wal`, `${path}.wal`)
    replace(path)
    later()
    for (let tries = 0; tries < 2; tries++) await assert.rejects(database.query('SELECT 1'), message)

    rmSync(path, { recursive: true })
    rmSync(`${path}-wal`, { force: true })
    await assert.rejects(database.query('SELECT 1'), /is gone/)
    if (!existsSync(backup)) copyFileSync(`${path}.kept`, backup)
    replaceBy(path, backup)
    assert.deepEqual(await database.query('SELECT name FROM rate_limit_rule'), [{ name: 'restored' }])
    assert.equal(database.replacements, 1)
  })
}

test('a SQLite file whose folder is moved away and back is used on', async (t) => {
  const { url, path } = await openFile(t)
  const database = new Database(url)
  atEnd(t, () => database.close())
  const later = skipTime(t)
  await database.execute("INSERT INTO rate_limit_staff_session VALUES ('a', 'b', 1)")
  renameSync(dirname(path), `${dirname(path)}.away`)
  later()
  await assert.rejects(database.query('SELECT 1'), /is gone/)
  renameSync(`${dirname(path)}.away`, dirname(path))
  assert.deepEqual(await database.query('SELECT id_hash FROM rate_limit_staff_session'), [{ id_hash: 'a' }])
  assert.equal(database.replacements, 0)
})

test('what a process knows of a SQLite file is forgotten when it is replaced', async (t) => {
  const { url, path } = await openFile(t)
  const client = createRateLimitClient({ database: url })
  atEnd(t, () => client.$disconnect())
  const database = databaseFor(client)
  const store = new DatabaseStore({ database: client })
  const { client: restored, backup } = await openBackup(t, path)
  await restored.$disconnect()
  const later = skipTime(t)
  await database.query('SELECT 1')
  const [resets, revision] = [await store.resets(), await readRevision(database, 'rules')]
  const inFlight = client.$transaction(async (transaction) => {
    await transaction.rateLimitRule.count()
    replaceBy(path, backup)
    later()
    assert.equal(await client.rateLimitRule.count(), 0)
    return transaction.rateLimitRule.count()
  })
  await assert.rejects(inFlight, /[Tt]ransaction/)
  assert.notEqual(await store.resets(), resets)
  assert.notEqual(await readRevision(database, 'rules'), revision)
})

/** Makes a backup of a file, and a client that can change it. */
async function openBackup(t: TestContext, path: string) {
  const backup = `${path}.backup`
  const database = `file:${backup}`
  await migrate({ database })
  const client = createRateLimitClient({ database })
  atEnd(t, () => client.$disconnect())
  return { backup, client }
}

/** Moves a backup of yesterday over a file, as an operator does. */
function replaceBy(path: string, backup: string, removesLog = true): void {
  utimesSync(backup, 0, 0)
  copyFileSync(backup, `${path}.kept`)
  renameSync(backup, path)
  if (removesLog) for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true })
}

/** Lets some seconds pass, without waiting, for what measures time. */
function skipTime(t: TestContext): () => void {
  const { now } = performance
  let passedMs = 0
  t.mock.method(performance, 'now', () => now.call(performance) + passedMs)
  return () => {
    passedMs += 2_000
  }
}

/** Runs servers through a fault, with a thread for long statements where they log events. */
async function proveFaultWhere(logsEvents: boolean, t: TestContext, fault: Fault): Promise<void> {
  const threads = watchThreads(t)
  let count: StatementCount | undefined

  await proveFault(t, {
    ...fault,
    connect() {
      const client = createRateLimitClient({ database: fault.url })
      atEnd(t, () => client.$disconnect())
      databaseFor(client).useThreads({ logsEvents })
      return client
    },
    async begin(apps) {
      assert.equal(threads.length, logsEvents ? apps.length : 0)
      await fault.begin(apps)
      count = countStatements()
    },
    async end(apps) {
      count?.stop()
      await fault.end?.(apps)
    },
  })
  assert.notEqual(count?.of('rate_limit_counter').length, 0)
}

/** Sets how large the file may get, on the connections that the servers count on. */
async function limitPages(apps: readonly TestApp[], pages: number): Promise<void> {
  for (const { app } of apps) {
    await databaseFor(app.smartRateLimit.client).short.query(`PRAGMA max_page_count = ${pages}`)
  }
}

async function openFile(t: TestContext) {
  const { url } = await openDatabase(t, 'sqlite')
  const path = url.slice('file:'.length)
  const other = openSqliteFile(path)
  atEnd(t, () => other.close())
  return { url, path, other }
}
