import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Database } from '../../../src/database/database.js'
import { redactUrl } from '../../../src/database/database-url.js'
import { RuleValidationError } from '../../../src/ground/errors.js'
import { migrate } from '../../../src/index.js'
import { createRateLimitClient, type RateLimitClient } from '../../../src/plugin/client/client.js'
import { defaultsFor } from '../../../src/rules/description.js'
import { RULES } from '../../../src/rules/rule.js'
import { atEnd } from '../../support/at-end.js'
import { forEachDatabase } from '../../support/databases.js'
import { long } from '../../support/long.js'

const RULE = { name: 'api', pathPattern: '^/api/', rate: '10/m' }
const EVENT = { key: 'ip:203.0.113.7', path: '/', method: 'GET', allowed: true, count: 3_000_000_000, limit: 5 }

test('the first thing that a client does with a new file may be any write', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-'))
  const deeds = [
    (client: RateLimitClient) => client.rateLimitOverride.deleteMany(),
    (client: RateLimitClient) => client.rateLimitRule.updateMany({ data: { rate: '1/m' } }),
    (client: RateLimitClient) =>
      client.rateLimitRule.upsert({ where: { name: 'api' }, create: RULE, update: { rate: '1/m' } }),
  ]
  for (const [index, deed] of deeds.entries()) {
    const client = createRateLimitClient({ database: `file:${join(folder, `${index}.db`)}` })
    atEnd(t, () => client.$disconnect())
    await deed(client)
  }
  atEnd(t, () => rm(folder, { recursive: true }))
})

test('a schema that a server would refuse is refused before it is created', async () => {
  const options = { database: 'postgresql://127.0.0.1/limits', schema: 'My-limits' }
  const refusal = { message: /^Setting "schema" is "My-limits": give a name of letters, digits and _, at most 63$/ }
  assert.throws(() => createRateLimitClient(options), refusal)
  await assert.rejects(migrate(options), refusal)
})

forEachDatabase((provider, open) => {
  describe('the client', () => {
    test('writes no rule that is wrong, through whichever call it comes', async () => {
      const { client, close } = await open()
      try {
        await client.rateLimitRule.create({ data: RULE })
        const bad = { ...RULE, name: 'bad', rate: 'nope' }
        const where = { name: 'api' }
        const attempts = [
          () => client.rateLimitRule.create({ data: bad }),
          () => client.rateLimitRule.createMany({ data: [{ ...RULE, name: 'good' }, bad] }),
          () => client.rateLimitRule.createManyAndReturn({ data: [bad] }),
          () => client.rateLimitRule.update({ where, data: { rate: 'nope' } }),
          () => client.rateLimitRule.update({ where, data: { rate: { set: 'nope' } } }),
          () => client.rateLimitRule.updateMany({ data: { pathPattern: '(' } }),
          () => client.rateLimitRule.updateManyAndReturn({ data: { pathPattern: '(' } }),
          () => client.rateLimitRule.upsert({ where, create: RULE, update: { rate: 'nope' } }),
          () => client.rateLimitRule.upsert({ where: { name: 'bad' }, create: bad, update: {} }),
        ]
        for (const attempt of attempts) await assert.rejects(attempt, RuleValidationError)
        const rules = await client.rateLimitRule.findMany()
        assert.deepEqual(
          rules.map(({ name, rate, pathPattern }) => ({ name, rate, pathPattern })),
          [RULE],
        )
      } finally {
        await close()
      }
    })

    test('refuses a second rule of the same name', async () => {
      const { client, close } = await open()
      try {
        await client.rateLimitRule.create({ data: RULE })
        await assert.rejects(client.rateLimitRule.create({ data: RULE }), { code: 'P2002' })
      } finally {
        await close()
      }
    })

    test('gives a rule its defaults and stores its methods in upper case', async () => {
      const { client, close } = await open()
      try {
        const { id, createdAt, updatedAt } = await client.rateLimitRule.create({
          data: { ...RULE, method: 'get, post' },
        })
        const rest = { id: true, createdAt: true, updatedAt: true } as const
        assert.deepEqual(await client.rateLimitRule.findFirst({ omit: rest }), {
          ...defaultsFor(RULES.fields),
          ...RULE,
          method: 'GET,POST',
        })
        assert.equal(typeof id, 'number')
        for (const date of [createdAt, updatedAt]) assert.ok(Math.abs(date.getTime() - Date.now()) < 60_000)
      } finally {
        await close()
      }
    })

    test('answers ids and counts as numbers that JSON can take', async () => {
      const { client, close } = await open()
      try {
        await client.rateLimitEvent.create({ data: { ...EVENT, userId: 7 } })
        const [event] = await client.rateLimitEvent.findMany()
        assert.deepEqual([event?.count, event?.userId, typeof event?.id], [3_000_000_000, 7, 'number'])
        assert.match(JSON.stringify(event), /"count":3000000000/)
      } finally {
        await close()
      }
    })

    test('counts an event of raw SQL, whatever its timestamp looks like, in the window it belongs to', async () => {
      const { database, client, close } = await open()
      try {
        const table = database.dialect.table('rate_limit_event')
        const columns = '("timestamp", key, path, method, allowed, count, "limit")'
        for (const timestamp of ['CURRENT_TIMESTAMP', "'2001-02-03 04:05:06'", "'2001-02-03T04:05:06.000Z'"]) {
          await database.execute(`INSERT INTO ${table} ${columns} VALUES (${timestamp}, 'k', '/', 'GET', true, 1, 1)`)
        }
        await database.execute(`UPDATE ${table} SET "timestamp" = CURRENT_TIMESTAMP WHERE id = 2`)
        const events = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
        const now = Date.now()
        assert.ok(events.slice(0, 2).every(({ timestamp }) => Math.abs(timestamp.getTime() - now) < 60_000))
        if (provider === 'sqlite') assert.equal(events[2]?.timestamp.toISOString(), '2001-02-03T04:05:06.000Z')
        const recent = await client.rateLimitEvent.count({ where: { timestamp: { gte: new Date(now - 86_400_000) } } })
        assert.equal(recent, 2)
      } finally {
        await close()
      }
    })

    test('prunes old events in batches and says how many', async () => {
      const { client, close } = await open()
      try {
        const timestamp = new Date(Date.now() - 31 * 86_400_000)
        await client.rateLimitEvent.createMany({
          data: [...Array(25).fill({ ...EVENT, timestamp }), EVENT, EVENT],
        })
        assert.equal(await client.rateLimitEvent.cleanupOld({ batchSize: 10 }), 25)
        assert.equal(await client.rateLimitEvent.count(), 2)
        assert.equal(await client.rateLimitEvent.cleanupOld({ olderThanDays: 0 }), 2)
        for (const options of [
          { olderThanDays: -1 },
          { olderThanDays: Number.NaN },
          { batchSize: 0 },
          { batchSize: 1.5 },
          { batchSize: 100_001 },
        ]) {
          await assert.rejects(client.rateLimitEvent.cleanupOld(options), { code: 'FST_RATE_LIMIT_INVALID_SETTING' })
        }
      } finally {
        await close()
      }
    })

    test('says how to make the tables when they are missing', async () => {
      const { url, client, database, close } = await open()
      try {
        await database.execute(`DROP TABLE ${database.dialect.table('rate_limit_event')}`)
        const says = { code: 'FST_RATE_LIMIT_MISSING_TABLE', message: /"ratelimit migrate( --schema \w+)?"/ }
        await assert.rejects(client.rateLimitEvent.count(), says)
        await assert.rejects(database.query(`SELECT 1 FROM ${database.dialect.table('rate_limit_event')}`), says)
        assert.ok(url !== '')
      } finally {
        await close()
      }
    })
  })
})

describe('a SQLite file', () => {
  test('that cannot be used is named with the reason and the remedy', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-'))
    try {
      await writeFile(
        join(folder, 'text.db'),
        'this is no database, but a text that is long enough to be read as one'.repeat(20),
      )
      for (const [file, remedy] of [
        ['missing/a.db', /give a file in a folder that exists and can be written to/],
        ['.', /give a file in a folder/],
        ['text.db', /restore the file from a backup, or name another one/],
      ] as const) {
        const url = `file:${join(folder, file)}`
        await assert.rejects(migrate({ database: url }), (error: Error) => {
          assert.match(error.message, remedy)
          return error.message.startsWith(`Setting "database" is ${url}, which cannot be used (`)
        })
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})

describe('a database URL', () => {
  for (const url of ['mysql://host/name', 'ratelimit.db', '', 'file:', 'file::memory:', 'redis://host']) {
    test(`${JSON.stringify(url)} is refused, with what is allowed`, () => {
      assert.throws(() => createRateLimitClient({ database: url }), {
        code: 'FST_RATE_LIMIT_INVALID_SETTING',
        message: /Setting "database" is .*file:.*postgresql:/,
      })
    })
  }

  for (const url of [
    'mysql://user:geheim@host/name',
    'mysql://user:ge@heim@host/name',
    'postgres//user:geheim@host/name',
    'postgresql:/user:geheim@host/name',
    'postgresql://user:geheim@host:99999/name',
    'postgresql://user:gehe#im@host/name',
    'postgresql://user:%zzgeheim@host/name',
    'mysql://host/name?user=a&password=geheim',
    // What the URL's own rules take for the host is the end of a password.
    'postgresql://user:p@geheim#x@host/name',
    'postgresql://user:p@geheim/x@host/name',
    'postgresql://user:p@geheim?x@host/name',
    'postgresql://geheim:12#x@host/name',
    'postgresql://geheim:12/x@host/name',
    // Forms of others.
    'host=db.example user=app password=geheim dbname=app',
    'prisma+postgres://db.example/?api_key=geheim',
    'prisma://db.example/?api_key=geheim',
    'jdbc:postgresql://host/name?user=a&password=geheim',
    'geheim',
  ]) {
    test(`${url.replaceAll(/ge.?heim|gehe.im/g, '…')} is refused, and never shown with its password`, () => {
      assert.throws(
        () => new Database(url),
        (error: Error) =>
          'code' in error &&
          error.code === 'FST_RATE_LIMIT_INVALID_SETTING' &&
          /^Setting "database" is (?:"[a-z+]+:\/\/…"|not as it has to be)/.test(error.message) &&
          !/geheim|ge@heim|heim@|gehe#im/.test(error.message),
      )
    })
  }
})

for (const url of ['file:./r.db?connection_limit=1', 'file:///tmp/r.db?mode=ro', 'file:///tmp/r#1.db']) {
  test(`${url} is refused, since a file takes no parameters`, () => {
    assert.throws(() => new Database(url), /Setting "database" has parameters, of which a file takes none: /)
  })
}

test('a URL is shown without its name, its password and its parameters', () => {
  assert.equal(redactUrl('postgresql://app:geheim@host:1/name?sslpassword=geheim'), 'postgresql://***@host:1/name')
  assert.equal(redactUrl('postgresql://host/name?user=a&password=geheim'), 'postgresql://host/name')
  assert.equal(redactUrl('file:./a@b/r.db'), 'file:./a@b/r.db')
})

test('the client gives a server up that takes connections and says nothing', long(), async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sockets: Socket[] = []
  server.on('connection', (socket) => sockets.push(socket))
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const client = createRateLimitClient({ database: `postgresql://app@127.0.0.1:${port}/app` })
  atEnd(t, () => client.$disconnect())

  const startedMs = performance.now()
  await assert.rejects(client.rateLimitOverride.count())
  assert.ok(performance.now() - startedMs < 10_000)
})
