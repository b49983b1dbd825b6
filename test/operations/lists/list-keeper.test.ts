/** Named lists are kept up to date: files that change, URLs that one of many processes fetches, and all that can go wrong. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { NamedLists } from '../../../src/clients/named-lists.js'
import type { Database } from '../../../src/database/database.js'
import { ListKeeper, type ListKeeperOptions } from '../../../src/operations/lists/list-keeper.js'
import { type ListsOptions, parseLists } from '../../../src/operations/lists/list-settings.js'
import { JobLeases } from '../../../src/operations/schedule/job-leases.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase } from '../../support/build-app.js'
import { type FakeClock, fakeClock } from '../../support/clock.js'
import { forAnyDatabase } from '../../support/databases.js'
import { eventually } from '../../support/eventually.js'
import { startFeed } from '../../support/feed-server.js'
import { long } from '../../support/long.js'

const TOR = '192.0.2.1'
const OTHER = '198.51.100.9'
const HOUR_MS = 3_600_000

async function openKeeper(
  t: TestContext,
  database: Database,
  clock: FakeClock,
  lists: ListsOptions,
  options: Partial<ListKeeperOptions> = {},
) {
  const sources = parseLists(lists, 'lists')
  const named = new NamedLists(sources.map(({ name }) => name))
  const lines: string[] = []
  const note = (details: object | string, message = '') => {
    const { err, ...others } = typeof details === 'string' ? {} : (details as { err?: Error })
    lines.push(`${message} ${JSON.stringify(others)}${err?.message ?? ''}`)
  }
  const log = { error: note, warn: note, info: note }
  const keeper = new ListKeeper({
    sources,
    named,
    refreshMs: HOUR_MS,
    blockPrivateNetworks: false,
    database,
    clock,
    log,
    ...options,
  })
  await keeper.prepare()
  atEnd(t, () => keeper.close())
  return { keeper, lines, has: (address: string) => named.includes('tor', address), look: () => keeper.look() }
}

/** Answers with the list, and that it has not changed where its ETag is known. */
function unlessKnown(response: ServerResponse, headers: IncomingHttpHeaders): void {
  response.setHeader('etag', '"one"')
  if (headers['if-none-match'] === '"one"') response.writeHead(304).end()
  else response.end(TOR)
}

async function folderFor(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-lists-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  return folder
}

forAnyDatabase((provider) => {
  describe('a list from a URL', () => {
    test('is fetched, kept in the database, and there after a restart without network', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers(`# exits\r\n${TOR}\r\n`)
      const first = await openKeeper(t, database, clock, { tor: feed.url })
      assert.match(first.keeper.problems().join(), /tor was never read, and is empty/)
      await first.look()
      assert.equal(first.has(TOR), true)
      assert.deepEqual(first.keeper.problems(), [])
      await first.keeper.close()
      feed.answers((response) => response.destroy())
      const second = await openKeeper(t, database, clock, { tor: feed.url })
      await second.look()
      assert.equal(second.has(TOR), true)
      assert.equal(feed.requests.length, 1, 'a list of this hour is not fetched again')
    })

    test('is asked for by its ETag and date when it is due, and stays where it has not changed', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      const date = 'Wed, 14 Jan 2026 12:00:00 GMT'
      feed.answers((response, headers) => {
        response.setHeader('last-modified', date)
        unlessKnown(response, headers)
      })
      const { look, has, keeper } = await openKeeper(t, database, clock, { tor: feed.url })
      await look()
      await look()
      assert.equal(feed.requests.length, 1)
      clock.advance(HOUR_MS)
      await look()
      assert.equal(feed.requests[1]?.['if-none-match'], '"one"')
      assert.equal(feed.requests[1]?.['if-modified-since'], date)
      assert.equal(has(TOR), true)
      assert.deepEqual(keeper.problems(), [])
      clock.advance(HOUR_MS / 2)
      await look()
      assert.equal(feed.requests.length, 2, 'an unchanged list is as good as a new one')
    })

    test('is fetched by one of twenty processes, and read from the database by the others', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers(TOR)
      const processes = await Promise.all(
        Array.from({ length: 20 }, () => openKeeper(t, database, clock, { tor: feed.url })),
      )
      await Promise.all(processes.map(({ look }) => look()))
      await Promise.all(processes.map(({ look }) => look()))
      assert.deepEqual(
        processes.map(({ has }) => has(TOR)),
        processes.map(() => true),
      )
      assert.equal(feed.requests.length, 1)
      feed.answers(OTHER)
      clock.advance(HOUR_MS)
      await Promise.all(processes.map(({ look }) => look()))
      clock.advance(10_000)
      await Promise.all(processes.map(({ look }) => look()))
      assert.equal(feed.requests.length, 2)
      assert.equal(
        processes.every(({ has }) => has(OTHER) && !has(TOR)),
        true,
      )
      const parts = await database.query<{ part: number }>(
        `SELECT part FROM ${database.dialect.table('rate_limit_list_part')}`,
      )
      assert.equal(parts.length, 1, 'the text of the list before is gone')
    })

    for (const [what, answer, reason] of [
      ['an error page', '<html>Sorry</html>', /has \\"<html>Sorry<\/html>\\" in line 1/],
      ['nothing', '', /has no line/],
      ['blank lines alone', '\r\n\n', /has no line/],
      ['half an entry', `${OTHER}\n203.0.113`, /in line 2/],
      // A terminal would obey it, and a viewer of bidirectional text turn the line around.
      [
        'signs that nobody sees',
        'é\u009b2J\u202e\x1b[2J',
        /has \\"é\\\\u\{9b\}2J\\\\u\{202e\}\\\\u001b\[2J\\" in line 1/,
      ],
    ] as const) {
      test(`that answers ${what} leaves the last good list in force, and is logged once`, async (t) => {
        const { database } = await openDatabase(t, provider)
        const feed = await startFeed(t)
        const clock = fakeClock()
        feed.answers(TOR)
        const { look, has, lines, keeper } = await openKeeper(t, database, clock, { tor: feed.url })
        await look()
        feed.answers(answer)
        for (let minutes = 0; minutes < 3; minutes++) {
          clock.advance(HOUR_MS)
          await look()
        }
        assert.equal(feed.requests.length, 4)
        assert.equal(has(TOR) && !has(OTHER), true)
        assert.equal(lines.length, 1)
        assert.match(lines[0] ?? '', /the last good one stays in force/)
        assert.match(lines[0] ?? '', reason)
        assert.match(keeper.problems().join(), /tor: the last good list stays/)
        feed.answers(OTHER)
        clock.advance(60_000)
        await look()
        assert.equal(has(OTHER), true, 'what failed is tried again within a minute')
        assert.match(lines[1] ?? '', /can be read again/)
        assert.deepEqual(keeper.problems(), [])
      })
    }

    test('that answers comments alone is an empty list, also for other processes', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers(TOR)
      const first = await openKeeper(t, database, clock, { tor: feed.url })
      await first.look()
      feed.answers('# nothing today\n')
      clock.advance(HOUR_MS)
      await first.look()
      const second = await openKeeper(t, database, clock, { tor: feed.url })
      await second.look()
      for (const { has, keeper, lines } of [first, second]) {
        assert.equal(has(TOR), false)
        assert.deepEqual(keeper.problems(), [])
        assert.deepEqual(lines, [])
      }
    })

    for (const [what, answer, reason] of [
      [
        'redirects to another host',
        (response) => response.writeHead(302, { location: 'https://example.com/' }).end(),
        /status 302: redirects are not followed/,
      ],
      ['fails', (response) => response.writeHead(503).end(TOR), /status 503/],
      ['dies', (response) => response.destroy(), /network error/],
      [
        'ends too early',
        (response) => {
          response.writeHead(200, { 'content-length': 1_000 }).write(`${TOR}\n`)
          setImmediate(() => response.destroy())
        },
        /network error/,
      ],
      [
        'announces too much',
        (response) => response.writeHead(200, { 'content-length': 2 ** 31 }).write(TOR),
        /larger than 32 MB/,
      ],
      [
        'sends too much',
        (response) => {
          const more = () => {
            while (response.write(Buffer.alloc(1_000_000, '\n')));
          }
          response.on('drain', more)
          more()
        },
        /larger than 32 MB/,
      ],
      ['says that nothing has changed', (response) => response.writeHead(304).end(), /status 304/],
    ] satisfies [string, Parameters<Awaited<ReturnType<typeof startFeed>>['answers']>[0], RegExp][]) {
      test(`that was never read and ${what} is empty, logged without its URL, and degraded`, async (t) => {
        const { database } = await openDatabase(t, provider)
        const feed = await startFeed(t)
        feed.answers(answer)
        const { look, has, lines, keeper } = await openKeeper(t, database, fakeClock(), { tor: feed.url })
        await look()
        await look()
        assert.equal(has(TOR), false)
        assert.equal(lines.length, 1)
        assert.match(lines[0] ?? '', /it is empty until it can be read/)
        assert.match(lines[0] ?? '', reason)
        assert.doesNotMatch(lines[0] ?? '', /secret|127\.0\.0\.1/)
        assert.match(keeper.problems().join(), /tor was never read, and is empty/)
        assert.equal(feed.requests.length, 1)
      })
    }

    test('in a private network is refused where blockPrivateNetworks is true', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      feed.answers(TOR)
      const options = { blockPrivateNetworks: true }
      const { look, has, lines } = await openKeeper(t, database, fakeClock(), { tor: feed.url }, options)
      await look()
      assert.equal(has(TOR), false)
      assert.match(lines[0] ?? '', /leads into a private network/)
      assert.equal(feed.requests.length, 0)
    })

    test('is fetched without the database while that is away', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      feed.answers(TOR)
      const table = database.dialect.table('rate_limit_list')
      await database.execute(`DROP TABLE ${table}`)
      const { look, has, lines } = await openKeeper(t, database, fakeClock(), { tor: feed.url })
      await look()
      assert.equal(has(TOR), true)
      assert.match(lines[0] ?? '', /cannot be read from the database/)
      await look()
      assert.equal(feed.requests.length, 1)
    })

    test('that was fetched while the database was away is stored once it is back', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers(unlessKnown)
      const table = database.dialect.table('rate_limit_list')
      const away = database.dialect.table('rate_limit_list_away')
      await database.execute(`ALTER TABLE ${table} RENAME TO ${away.split('.').at(-1)}`)
      const first = await openKeeper(t, database, clock, { tor: feed.url })
      await first.look()
      assert.equal(first.has(TOR), true)
      await database.execute(`ALTER TABLE ${away} RENAME TO ${table.split('.').at(-1)}`)
      clock.advance(60_000)
      await first.look()
      feed.answers((response) => response.destroy())
      const second = await openKeeper(t, database, clock, { tor: feed.url })
      await second.look()
      assert.equal(second.has(TOR), true)
    })

    test('that has two names is fetched once, and stays whole in the database', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers(TOR)
      const lists = { tor: feed.url, exits: feed.url }
      const first = await openKeeper(t, database, clock, lists)
      const second = await openKeeper(t, database, clock, lists)
      await Promise.all([first.look(), second.look()])
      await Promise.all([first.look(), second.look()])
      assert.equal(feed.requests.length, 1)
      for (const { keeper, has } of [first, second]) {
        assert.deepEqual(keeper.problems(), [])
        assert.equal(has(TOR), true)
      }
    })

    test('that is stored in several parts is there after a restart', long(), async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      // Digests do not compress well.
      const addresses = Array.from({ length: 100_000 }, (_, index) => {
        return [...createHash('sha256').update(String(index)).digest().subarray(0, 4)].join('.')
      })
      feed.answers(addresses.join('\n'))
      const first = await openKeeper(t, database, clock, { tor: feed.url })
      await first.look()
      const [stored] = await database.query<{ parts: number }>(
        `SELECT parts FROM ${database.dialect.table('rate_limit_list')}`,
      )
      assert.ok((stored?.parts ?? 0) > 2)
      const second = await openKeeper(t, database, clock, { tor: feed.url })
      await second.look()
      assert.equal(feed.requests.length, 1)
      assert.equal(addresses.every(second.has), true)
    })

    test('that hangs keeps neither other lists nor the closing of the app waiting', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const slow = await startFeed(t)
      slow.answers((response) => response.writeHead(200).write(`${OTHER}\n`))
      feed.answers(TOR)
      const lists = { slow: slow.url, tor: feed.url }
      const { keeper, has, lines } = await openKeeper(t, database, fakeClock(), lists)
      void keeper.look()
      await eventually('the other list is there', () => has(TOR))
      await eventually('the slow server was asked', () => slow.requests.length === 1)
      void keeper.look()
      const startedMs = performance.now()
      await keeper.close()
      assert.ok(performance.now() - startedMs < 2_000)
      assert.equal(slow.requests.length, 1)
      assert.deepEqual(lines, [])
      const records = await new JobLeases(database).records()
      assert.deepEqual(
        records.map(({ error }) => error),
        [null, null],
      )
    })

    test('that answers another error page each time is logged once', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers((response) => response.end(`<p>Request ${feed.requests.length} failed</p>`))
      const { look, lines, keeper } = await openKeeper(t, database, clock, { tor: feed.url })
      for (let minutes = 0; minutes < 3; minutes++) {
        await look()
        clock.advance(60_000)
      }
      assert.equal(feed.requests.length, 3)
      assert.equal(lines.length, 1)
      assert.match(keeper.problems().join(), /Request 3 failed/)
    })

    test('whose text is gone from the database is fetched anew', async (t) => {
      const { database } = await openDatabase(t, provider)
      const feed = await startFeed(t)
      const clock = fakeClock()
      feed.answers(unlessKnown)
      const first = await openKeeper(t, database, clock, { tor: feed.url })
      await first.look()
      await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_list_part')}`)
      const second = await openKeeper(t, database, clock, { tor: feed.url })
      clock.advance(HOUR_MS)
      await second.look()
      assert.equal(second.has(TOR), true)
    })
  })
})

describe('a list from a file', () => {
  async function openFile(t: TestContext, text: string) {
    const { database } = await openDatabase(t, 'sqlite')
    const path = join(await folderFor(t), 'tor.txt')
    await writeFile(path, text)
    return { path, ...(await openKeeper(t, database, fakeClock(), { tor: path })) }
  }

  test('is read again when it has changed and was then left alone', async (t) => {
    const { path, look, has } = await openFile(t, TOR)
    assert.equal(has(TOR), true)
    await writeFile(path, `${OTHER}\n203.0.113.0/24\n`)
    await look()
    assert.equal(has(TOR), true, 'it may still be written')
    await look()
    assert.equal(has(OTHER) && has('203.0.113.5') && !has(TOR), true)
  })

  test('is read again when another one is renamed onto it', async (t) => {
    const { path, look, has } = await openFile(t, TOR)
    await writeFile(`${path}.new`, OTHER)
    await rename(`${path}.new`, path)
    await look()
    await look()
    assert.equal(has(OTHER) && !has(TOR), true)
  })

  test('that has only comments is an empty list', async (t) => {
    const { path, look, has, keeper, lines } = await openFile(t, TOR)
    await writeFile(path, '# nobody\n')
    await look()
    await look()
    assert.equal(has(TOR), false)
    assert.deepEqual([keeper.problems(), lines], [[], []])
  })

  for (const [what, text] of [
    ['no line at all', ''],
    ['only blank lines', '\n \r\n'],
    ['only a byte order mark', '\ufeff'],
  ] as const) {
    test(`that comes to have ${what} leaves the last good list in force, and is logged once`, async (t) => {
      const { path, look, has, keeper, lines } = await openFile(t, TOR)
      await writeFile(path, text)
      for (let times = 0; times < 4; times++) await look()
      assert.equal(has(TOR), true)
      assert.equal(lines.length, 1)
      assert.match(lines[0] ?? '', /the last good one stays in force .*has no line/)
      assert.match(keeper.problems().join(), /tor: the last good list stays \(has no line/)
      await writeFile(path, '# nobody\n')
      await look()
      await look()
      assert.equal(has(TOR), false)
      assert.deepEqual([keeper.problems(), lines.length], [[], 2])
    })
  }

  test('that becomes unreadable leaves the last good list in force, and is logged once', async (t) => {
    const { path, look, has, lines, keeper } = await openFile(t, TOR)
    await writeFile(path, `${OTHER}\noops\n`)
    for (let times = 0; times < 4; times++) await look()
    assert.equal(has(TOR) && !has(OTHER), true)
    assert.equal(lines.length, 1)
    assert.match(lines[0] ?? '', /"list":"tor","reason":"has \\"oops\\" in line 2/)
    assert.match(keeper.problems().join(), /tor: the last good list stays/)
    await rm(path)
    await look()
    await look()
    assert.equal(lines.length, 1)
    assert.match(keeper.problems().join(), /tor: the last good list stays .*ENOENT/)
    await writeFile(path, OTHER)
    await look()
    await look()
    assert.equal(has(OTHER), true)
    assert.match(lines[1] ?? '', /can be read again/)
  })

  test('that gets its permission after it was moved into place is read', {
    skip: process.platform === 'win32',
  }, async (t) => {
    const { path, look, has, lines } = await openFile(t, TOR)
    await chmod(dirname(path), 0o755)
    await writeFile(`${path}.new`, OTHER, { mode: 0o000 })
    await rename(`${path}.new`, path)
    // Root may read every file.
    const isRoot = process.getuid?.() === 0
    if (isRoot) process.seteuid?.('nobody')
    try {
      for (let times = 0; times < 3; times++) await look()
    } finally {
      if (isRoot) process.seteuid?.(0)
    }
    assert.equal(has(TOR), true)
    assert.match(lines.join(), /EACCES/)
    await chmod(path, 0o644)
    await look()
    assert.equal(has(OTHER), true)
    assert.equal(lines.length, 2)
  })

  test('that cannot be read at start is a wrong setting', async (t) => {
    const { database } = await openDatabase(t, 'sqlite')
    const folder = await folderFor(t)
    await writeFile(join(folder, 'bad.txt'), '10.0.0.1\n10.0.0.x\n')
    await writeFile(join(folder, 'empty.txt'), '')
    for (const [path, problem] of [
      [join(folder, 'missing.txt'), /Setting "lists.tor" is ".*missing.txt", a file that cannot be read: ENOENT/],
      [join(folder, 'bad.txt'), /cannot be read: has "10.0.0.x" in line 2/],
      [join(folder, 'empty.txt'), /cannot be read: has no line: .* a comment/],
      [folder, /cannot be read: it is no file/],
    ] as const) {
      await assert.rejects(openKeeper(t, database, fakeClock(), { tor: path }), problem)
    }
  })
})
