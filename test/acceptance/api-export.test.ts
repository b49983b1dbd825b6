/** The API's export: long documents are read slice by slice, as of one moment, and sent without holding anything. */
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { connect } from 'node:net'
import type { Readable } from 'node:stream'
import { test } from 'node:test'
import { exportSlices } from '../../src/rules/exchange/exchange.js'
import { SentExports } from '../../src/staff/api/sent-exports.js'
import { API, startWithApi } from '../support/api-app.js'
import { countStatements } from '../support/count-statements.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'

/** The statement that reads a slice. */
const READS_SLICE = /SELECT \* FROM .*rate_limit_override/s
const MOST = 500

async function fill({ database }: TestDatabase, count: number): Promise<void> {
  const { dialect } = database
  const [client, note] = [dialect.jsonField(0, 'text'), dialect.jsonField(1, 'text')]
  for (let start = 0; start < count; start += MOST) {
    const size = Math.min(MOST, count - start)
    const rows = Array.from({ length: size }, (_, place) => [`user:${start + place}`, 'n'.repeat(900)])
    await database.execute(
      `INSERT INTO ${dialect.table('rate_limit_override')} (client, effect, note)
       SELECT ${client}, 'deny', ${note} FROM ${dialect.jsonRows()}`,
      [JSON.stringify(rows)],
    )
  }
}

forEachDatabase((provider) => {
  test('slices are read when they are asked for, few rows at a time, all as of the beginning', long(), async (t) => {
    const { database, clock, call } = await startWithApi(t, provider)
    await fill(database, 3 * MOST + 1)
    const { rateLimitOverride, rateLimitRule } = database.client
    await rateLimitRule.create({ data: { name: 'first', pathPattern: '^/', rate: '5/m' } })
    const counted = countStatements()
    const sizes: number[] = []
    const clients: string[] = []
    await exportSlices(database.database, clock, async (slices) => {
      for await (const { overrides } of slices) {
        if (overrides === undefined) continue
        sizes.push(overrides.length)
        clients.push(...overrides.map(({ client }) => client))
        assert.equal(counted.statements.filter((sql) => READS_SLICE.test(sql)).length, sizes.length)
        await rateLimitOverride.deleteMany({ where: { client: { in: ['user:999', `user:${sizes.length}`] } } })
        await rateLimitOverride.create({ data: { client: `user:0${sizes.length}`, effect: 'deny' } })
      }
    })
    counted.stop()
    assert.deepEqual(sizes, [MOST, MOST, MOST, 1])
    assert.deepEqual(clients, Array.from({ length: 3 * MOST + 1 }, (_, number) => `user:${number}`).toSorted())

    const { json, headers } = await call('GET', '/export', { as: 'viewer' })
    assert.match(headers['content-type'] ?? '', /^application\/json/)
    assert.equal(json.rules.length, 1)
    assert.equal(json.overrides.length, 3 * MOST, 'five were deleted, and four created')
    const head = await call('HEAD', '/export', { as: 'viewer' })
    assert.deepEqual([head.status, head.text], [200, ''])
  })

  test('nobody waits for the reader of an export, and what he reads is as of its beginning', long(), async (t) => {
    const { database, port, tokens, call } = await startWithApi(t, provider)
    await fill(database, 20 * MOST)
    const socket = connect(port, '127.0.0.1')
    socket.write(`GET ${API}/export HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${tokens.get('viewer')}\r\n\r\n`)
    const [chunk] = await once(socket, 'data')
    assert.match(String(chunk), /^HTTP\/1\.1 200 /)
    socket.pause()
    // A report runs when no other one does, and no transaction of one is open.
    assert.equal((await call('GET', '/reports/summary', { as: 'viewer' })).status, 200)
    await database.client.rateLimitOverride.deleteMany()
    assert.deepEqual((await call('GET', '/export', { as: 'viewer' })).json.overrides, [])
    let [read, last] = [String(chunk), '']
    socket.on('data', (more) => {
      read += more
      last = `${last}${more}`.slice(-20)
      if (last.endsWith('\r\n0\r\n\r\n')) socket.end()
    })
    socket.resume()
    await once(socket, 'close')
    assert.equal(read.match(/"client":/g)?.length, 20 * MOST)
  })

  test('an export is read no further when its reader is gone', long(), async (t) => {
    const { database, port, tokens, call } = await startWithApi(t, provider)
    await fill(database, 20 * MOST)
    const counted = countStatements()
    const read = () => counted.statements.filter((sql) => READS_SLICE.test(sql)).length
    const socket = connect(port, '127.0.0.1')
    socket.write(`GET ${API}/export HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${tokens.get('viewer')}\r\n\r\n`)
    await eventually('it has begun', () => read() > 0)
    socket.destroy()
    assert.equal((await call('GET', '/reports/summary', { as: 'viewer' })).status, 200)
    assert.ok(read() < 20, `${read()} slices were read`)
    counted.stop()
  })

  test('beside an import an export is of before or of after', long(), async (t) => {
    const { call, database } = await startWithApi(t, provider)
    await fill(database, 2 * MOST)
    const before = (await call('GET', '/export', { as: 'viewer' })).json
    const after = {
      ...before,
      rules: [{ name: 'new', pathPattern: '^/', rate: '5/m' }],
      overrides: before.overrides.map((override: object) => ({ ...override, note: 'new' })),
    }
    const importing = call('POST', '/import', { as: 'admin', json: after })
    const exported = await Promise.all(Array.from({ length: 4 }, () => call('GET', '/export', { as: 'viewer' })))
    assert.equal((await importing).status, 200)
    exported.push(await call('GET', '/export', { as: 'viewer' }))
    for (const { json } of exported) {
      const notes = new Set(json.overrides.map(({ note }: { note: string }) => note))
      assert.deepEqual([json.overrides.length, notes.size], [2 * MOST, 1])
      assert.equal(json.rules.length, notes.has('new') ? 1 : 0)
    }
    assert.equal(exported.at(-1)?.json.rules.length, 1)
  })

  test('an export that cannot begin is a problem document', async (t) => {
    const { call, database } = await startWithApi(t, provider)
    const { dialect } = database.database
    await database.database.execute(`DROP TABLE ${dialect.table('rate_limit_rule')}`)
    const { status, headers, json } = await call('GET', '/export', { as: 'viewer' })
    assert.equal(status, 503)
    assert.match(headers['content-type'] ?? '', /^application\/problem\+json/)
    assert.match(json.detail, /tables of the rate limiter are missing/)
  })
})

test('an export ends after two minutes, however steadily it is read', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const stream = await send(new SentExports(), 'ci')
  const reading = stream[Symbol.asyncIterator]()
  for (let minutes = 0; minutes < 2; minutes++) {
    assert.equal((await reading.next()).done, false)
    t.mock.timers.tick(60_000)
  }
  assert.ok(stream.destroyed)
  await assert.rejects(async () => {
    while (!(await reading.next()).done);
  }, /not read in time/)
})

test('an actor has four exports at once, whether they are read or sent, and others have theirs', async () => {
  const exports = new SentExports()
  const database = new EventEmitter()
  const beingRead = exports.send(
    'slow',
    async () => {
      await once(database, 'answer')
      return []
    },
    () => true,
  )
  const [first] = [await send(exports, 'slow'), await send(exports, 'slow'), await send(exports, 'slow')]
  await assert.rejects(send(exports, 'slow'), { statusCode: 429, code: 'FST_RATE_LIMIT_TOO_MANY_EXPORTS' })
  assert.equal(await readAll(await send(exports, 'other')), 'n'.repeat(10))
  assert.equal(await readAll(first), 'n'.repeat(10))
  await send(exports, 'slow')
  await assert.rejects(send(exports, 'slow'), { statusCode: 429 })
  database.emit('answer')
  assert.equal(await readAll(await beingRead), '')
  await send(exports, 'slow')
})

test('an export that fails, or that nobody waits for, is none of the four', async () => {
  const exports = new SentExports()
  for (let count = 0; count < 5; count++) {
    await assert.rejects(
      exports.send(
        'ci',
        async () => {
          throw new Error('no database')
        },
        () => true,
      ),
      /no database/,
    )
    const unread = await send(exports, 'ci', () => false)
    if (!unread.closed) await once(unread, 'close')
  }
})

function send(exports: SentExports, actor: string, isWanted = () => true): Promise<Readable> {
  return exports.send(actor, (receive) => receive(texts(10)), isWanted)
}

async function readAll(stream: Readable): Promise<string> {
  let read = ''
  for await (const text of stream) read += text
  return read
}

async function* texts(count: number): AsyncGenerator<string> {
  for (let sent = 0; sent < count; sent++) yield 'n'
}
