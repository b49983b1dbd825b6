import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { Compile } from 'typebox/schema'
import { Database } from '../../../src/database/database.js'
import { InvalidSettingError, RuleDocumentError } from '../../../src/ground/errors.js'
import { PACKAGE_ROOT } from '../../../src/ground/package-root.js'
import { CooperativeYield } from '../../../src/ground/time/cooperative-yield.js'
import { defaultsFor } from '../../../src/rules/description.js'
import { exportRules, type ImportOptions, importRules } from '../../../src/rules/exchange/exchange.js'
import { asActor } from '../../../src/rules/history/actor.js'
import { RULES } from '../../../src/rules/rule.js'
import { startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { countStatements } from '../../support/count-statements.js'
import { forEachDatabase, type TestDatabase } from '../../support/databases.js'
import { long } from '../../support/long.js'
import { fc } from '../../support/properties.js'

const API = { name: 'api', pathPattern: '^/api/', rate: '5/m' }
const LOGIN = {
  name: 'login',
  pathPattern: '^/login$',
  rate: '1/m',
  priority: 10,
  isActive: false,
  endsAt: '2030-01-01T00:00:00.000Z',
}
const DENIED = { client: 'ip:203.0.113.7', effect: 'deny', expiresAt: '2026-01-15T13:00:00Z', note: 'scraper' }
const shippedSchema = Compile(JSON.parse(readFileSync(join(PACKAGE_ROOT, 'rules.schema.json'), 'utf8')))

function moments(min: string, max: string) {
  return fc.date({ min: new Date(min), max: new Date(max), noInvalidDate: true }).map((at) => at.toISOString())
}

const ruleSets = fc.uniqueArray(
  fc
    .record({
      name: fc.stringMatching(/^[ -.0-9;-~][ -9;-~]{0,99}$/),
      description: fc.string({ unit: 'binary', maxLength: 20 }).map((text) => text.replaceAll('\0', '')),
      pathPattern: fc.constantFrom('^/api/', '\\.(png|jpe?g)$', '(?i)^/é/\\d+', '"', '💥'),
      method: fc.constantFrom('ALL', 'GET', 'get, post', 'PUT,DELETE'),
      rate: fc.constantFrom('5/m', '0/s', '2147483647/366d', '10/30 s'.replace(' ', '')),
      key: fc.constantFrom('ip', 'user', 'header:X-Api-Key'),
      algorithm: fc.constantFrom('fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'),
      counts: fc.constantFrom('requests', '401', ' 4XX, 503 '),
      cost: fc.integer({ min: 1, max: 5 }),
      noticeAt: fc.constantFrom('', '80', ' 50, 80,100 '),
      block: fc.boolean(),
      refusalStatus: fc.integer({ min: 400, max: 599 }),
      refusalMessage: fc.string({ maxLength: 20 }).map((text) => text.replaceAll('\0', '')),
      isActive: fc.boolean(),
      startsAt: fc.option(moments('2000-01-01', '2029-12-31')),
      endsAt: fc.option(moments('2030-01-01', '9999-01-01')),
      group: fc.constantFrom('', 'organisation', 'team_2'),
      priority: fc.integer({ min: -2_147_483_647, max: 2_147_483_647 }),
    })
    .map((rule) => ({
      ...defaultsFor(RULES.fields),
      ...rule,
      ...(!rule.key.startsWith('header') && rule.cost <= 3 && { banAfter: rule.cost, banFor: '15m' }),
    })),
  { selector: ({ name }) => name, maxLength: 12 },
)
const overrideSets = fc.uniqueArray(
  fc.record({
    client: fc.oneof(
      fc.ipV4().map((ip) => `ip:${ip}`),
      fc.ipV6().map((ip) => `ip:${ip}`),
      fc.integer().map((id) => `user:${id}`),
    ),
    effect: fc.constantFrom('deny', 'allow', '20/m'),
    pathPattern: fc.constantFrom('', '^/api/'),
    expiresAt: fc.option(moments('2026-02-01', '9999-01-01')),
    note: fc.string({ maxLength: 20 }).map((text) => text.replaceAll('\0', '')),
  }),
  { selector: ({ client }) => client, maxLength: 8 },
)

forEachDatabase((provider, open) => {
  describe('export and import', () => {
    const clock = fakeClock()
    let database: TestDatabase
    before(async () => {
      database = await open(clock)
    })
    after(() => database.close())
    beforeEach(async () => {
      await database.client.rateLimitRule.deleteMany()
      await database.client.rateLimitOverride.deleteMany()
      await database.client.rateLimitChange.deleteMany()
    })

    const exported = (from = database) => exportRules(from.database, clock)
    const imported = (document: object, options?: ImportOptions) =>
      importRules(database.database, clock, { version: 1, ...document }, options)
    const revision = async () => (await database.client.rateLimitRevision.findFirst())?.revision
    const names = async () => (await exported()).rules.map(({ name }) => name)

    test('an export has everything but what the database added, in a stable order', async () => {
      await database.client.rateLimitRule.createMany({ data: [API, { ...API, name: 'Zoo' }, LOGIN] })
      await database.client.rateLimitOverride.create({ data: DENIED })
      await database.client.rateLimitOverride.create({
        data: { client: 'user:7', effect: '20/m', pathPattern: '^/api/' },
      })
      const document = await exported()
      assert.deepEqual(Object.keys(document), ['$schema', 'version', 'rules', 'overrides'])
      assert.equal(document.$schema, './node_modules/fastify-smart-ratelimit/rules.schema.json')
      assert.deepEqual(
        document.rules.map(({ name }) => name),
        ['login', 'Zoo', 'api'],
      )
      assert.deepEqual(document.rules[0], { ...defaultsFor(RULES.fields), ...LOGIN })
      assert.deepEqual(document.overrides, [
        {
          client: 'ip:203.0.113.7',
          effect: 'deny',
          algorithm: 'fixed_window',
          pathPattern: '',
          expiresAt: '2026-01-15T13:00:00.000Z',
          note: 'scraper',
        },
        {
          client: 'user:7',
          effect: '20/m',
          algorithm: 'fixed_window',
          pathPattern: '^/api/',
          expiresAt: null,
          note: '',
        },
      ])
      assert.deepEqual(shippedSchema.Errors(document), [true, []])
    })

    test(
      'whatever was imported is exported equal, validates against the schema, and imports elsewhere',
      long(),
      async () => {
        const elsewhere = await open(clock)
        try {
          await fc.assert(
            fc.asyncProperty(ruleSets, overrideSets, async (rules, overrides) => {
              await imported({ rules, overrides })
              const document = await exported()
              assert.equal(document.rules.length, rules.length)
              assert.equal(document.overrides.length, overrides.length)
              assert.deepEqual(shippedSchema.Errors(document), [true, []])
              await importRules(elsewhere.database, clock, JSON.parse(JSON.stringify(document)))
              assert.deepEqual(await exported(elsewhere), document)
              assert.equal((await importRules(elsewhere.database, clock, document)).rules.unchanged, rules.length)
            }),
            { numRuns: 40 },
          )
        } finally {
          await elsewhere.close()
        }
      },
    )

    test('an import makes the database equal to the document, and returns the difference', async () => {
      await imported({ rules: [API, LOGIN, { ...API, name: 'old' }], overrides: [DENIED] })
      const renamed = { ...LOGIN, name: 'sign-in' }
      const result = await imported({
        rules: [{ ...API, rate: '10/m', block: false }, renamed, { ...API, name: 'old' }],
        overrides: [{ ...DENIED, expiresAt: null }],
      })
      assert.deepEqual(result.rules.updated, [
        { name: 'api', changes: { rate: ['5/m', '10/m'], block: [true, false] } },
      ])
      assert.deepEqual(
        [result.rules.created.map(({ name }) => name), result.rules.deleted.map(({ name }) => name)],
        [['sign-in'], ['login']],
      )
      assert.equal(result.rules.unchanged, 1)
      assert.deepEqual(result.overrides.updated, [
        {
          client: 'ip:203.0.113.7',
          pathPattern: '',
          changes: { expiresAt: ['2026-01-15T13:00:00.000Z', null] },
        },
      ])
      assert.equal(result.applied, true)
      assert.deepEqual(await names(), ['sign-in', 'api', 'old'])
    })

    test('a dry run returns the same difference and writes nothing', async () => {
      await imported({ rules: [API, LOGIN] })
      const before = [await exported(), await revision()]
      const document = { rules: [{ ...API, rate: '6/m' }], overrides: [DENIED] }
      const dry = await imported(document, { dryRun: true })
      assert.equal(dry.applied, false)
      assert.deepEqual([await exported(), await revision()], before)
      assert.deepEqual({ ...(await imported(document)), applied: false }, dry)
    })

    test('a second import writes nothing: no row, no change in the history, no revision', async () => {
      const document = { rules: [API, LOGIN], overrides: [DENIED] }
      await imported(document)
      const rows = async () =>
        (await database.client.rateLimitRule.findMany({ orderBy: { id: 'asc' } })).map(({ id, updatedAt }) => [
          id,
          updatedAt,
        ])
      const state = async () => [await rows(), await revision(), await database.client.rateLimitChange.count()]
      const before = await state()
      const { rules, overrides } = await imported(document)
      assert.deepEqual([rules.unchanged, overrides.unchanged, rules.updated, rules.created], [2, 1, [], []])
      assert.deepEqual(await state(), before)
    })

    test('an import compares in slices before it locks the tables, and again where they have changed since', async (t) => {
      await imported({ rules: Array.from({ length: 100 }, (_, place) => ({ ...API, name: `rule-${place}` })) })
      const { database: opened } = database
      const { locked } = opened
      let compared = 0
      const { statements, stop } = countStatements()
      t.after(stop)
      const reads = () => statements.filter((sql) => /ORDER BY id LIMIT 500/.test(sql)).length
      let beforeLock = async () => undefined as unknown
      t.mock.method(opened, 'locked', async (...input: Parameters<typeof locked>) => {
        compared = reads()
        await beforeLock()
        return locked.apply(opened, input)
      })
      // Each look at the clock finds a millisecond more: a slice is over after eight steps.
      let nowMs = performance.now()
      const clocked = t.mock.method(performance, 'now', () => ++nowMs)
      const { mock } = t.mock.method(CooperativeYield.prototype, 'pause')
      await imported({ rules: [LOGIN] })
      clocked.mock.restore()
      assert.ok(mock.callCount() > 10, `other work could run ${mock.callCount()} times`)
      assert.deepEqual([compared, reads(), await names()], [1, 1, [LOGIN.name]])

      beforeLock = () => database.client.rateLimitRule.create({ data: API })
      await imported({ rules: [LOGIN] })
      assert.deepEqual([compared, reads(), await names()], [2, 3, [LOGIN.name]])
    })

    test('the history says who imported, also of what was deleted', async () => {
      await imported({ rules: [API, LOGIN], overrides: [DENIED] })
      await database.client.rateLimitChange.deleteMany()
      const document = {
        rules: [
          { ...API, rate: '6/m' },
          { ...API, name: 'new' },
        ],
        overrides: [],
      }
      await asActor('alice', () => imported(document))
      const changes = await database.client.rateLimitChange.findMany()
      assert.deepEqual(changes.map(({ actor, source, action, name }) => [actor, source, action, name]).sort(), [
        ['alice', 'import', 'create', 'new'],
        ['alice', 'import', 'delete', 'ip:203.0.113.7'],
        ['alice', 'import', 'delete', 'login'],
        ['alice', 'import', 'update', 'api'],
      ])
    })

    test('the deletions of others stay theirs in the history', async () => {
      await imported({ rules: [API, LOGIN] })
      await database.database.execute(
        `DELETE FROM ${database.database.dialect.table('rate_limit_rule')} WHERE name = 'api'`,
      )
      await imported({ rules: [] })
      const deletions = await database.client.rateLimitChange.findMany({ where: { action: 'delete' } })
      assert.deepEqual(deletions.map(({ source, name }) => [source, name]).sort(), [
        ['import', 'login'],
        ['sql', 'api'],
      ])
    })

    test('a list that the document does not have is left alone, and an empty one deletes all', async () => {
      await imported({ rules: [API], overrides: [DENIED] })
      await imported({ rules: [LOGIN] })
      assert.equal((await exported()).overrides.length, 1)
      await imported({ overrides: [] })
      assert.deepEqual([await names(), (await exported()).overrides], [['login'], []])
    })

    test('with keep nothing is deleted', async () => {
      await imported({ rules: [API], overrides: [DENIED] })
      const { rules, overrides } = await imported({ rules: [LOGIN], overrides: [] }, { keep: true })
      assert.deepEqual([rules.deleted, overrides.deleted], [[], []])
      assert.deepEqual([await names(), (await exported()).overrides.length], [['login', 'api'], 1])
    })

    test('overrides that have expired are neither exported nor imported nor deleted', async () => {
      await imported({ overrides: [DENIED] })
      const document = await exported()
      const later = fakeClock(clock.now() + 3_600_000)
      assert.deepEqual((await exportRules(database.database, later)).overrides, [])
      const again = await importRules(database.database, later, document)
      assert.equal(again.expired, 1)
      assert.deepEqual(again.overrides, { created: [], updated: [], deleted: [], unchanged: 0 })
      assert.equal(await database.client.rateLimitOverride.count(), 1)
      const renewed = { version: 1, overrides: [{ ...DENIED, expiresAt: null }] }
      assert.equal((await importRules(database.database, later, renewed)).overrides.updated.length, 1)
    })

    test('a document that is wrong anywhere changes nothing', async () => {
      await imported({ rules: [API] })
      const before = await exported()
      await assert.rejects(imported({ rules: [LOGIN, { name: 'x' }] }), RuleDocumentError)
      await assert.rejects(
        imported({ rules: [LOGIN], overrides: [{ client: 'nobody', effect: 'deny' }] }),
        RuleDocumentError,
      )
      assert.deepEqual(await exported(), before)
    })

    test('a mistyped option is refused before anything is written', async () => {
      const options: object = { dryrun: true }
      await assert.rejects(imported({ rules: [API] }, options), InvalidSettingError)
      assert.deepEqual(await names(), [])
    })

    test('an import that fails half-way through leaves everything as it was', async () => {
      await imported({ rules: [API, LOGIN] })
      const before = [await exported(), await revision(), await database.client.rateLimitChange.count()]
      const table = database.database.dialect.table('rate_limit_override')
      const [forbid, allow] =
        provider === 'sqlite'
          ? [
              `CREATE TRIGGER forbidden BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'forbidden'); END`,
              'DROP TRIGGER forbidden',
            ]
          : [
              `ALTER TABLE ${table} ADD CONSTRAINT forbidden CHECK (note <> 'scraper') NOT VALID`,
              `ALTER TABLE ${table} DROP CONSTRAINT forbidden`,
            ]
      await database.database.execute(forbid)
      try {
        // The rules are written by then.
        await assert.rejects(imported({ rules: [{ ...API, rate: '9/m' }], overrides: [DENIED] }), /forbidden/)
      } finally {
        await database.database.execute(allow)
      }
      assert.deepEqual([await exported(), await revision(), await database.client.rateLimitChange.count()], before)
    })

    test('imports at the same time follow one another: the last one holds as a whole', async () => {
      const other = new Database(database.url, database.schema)
      try {
        for (let round = 0; round < 5; round++) {
          const sets = ['a', 'b', 'c'].map((set) =>
            Array.from({ length: 40 }, (_, place) => ({
              ...API,
              name: `${set}-${place % 20 < 10 ? place : `${round}-${place}`}`,
            })),
          )
          const shared = { ...API, name: 'shared' }
          await Promise.all(
            sets.map((rules, place) =>
              importRules(place === 1 ? other : database.database, clock, {
                version: 1,
                rules: [...rules, { ...shared, priority: place }],
              }),
            ),
          )
          const { rules } = await exported()
          assert.equal(rules.length, 41)
          const winner = rules.find(({ name }) => name === 'shared')?.priority ?? -1
          const expected = [...(sets[winner] ?? []), shared].map(({ name }) => name)
          assert.deepEqual(rules.map(({ name }) => name).sort(), expected.sort())
        }
      } finally {
        await other.close()
      }
    })

    test('edits at the same time neither fail nor get lost in an import that keeps', async () => {
      await imported({ rules: [API] })
      const edits = Array.from({ length: 10 }, (_, place) =>
        database.client.rateLimitRule.create({ data: { ...API, name: `edit-${place}` } }),
      )
      const imports = Array.from({ length: 4 }, (_, place) =>
        imported(
          {
            rules: [
              { ...API, rate: `${place + 1}/m` },
              { ...LOGIN, name: `edit-${place}` },
            ],
          },
          { keep: true },
        ),
      )
      const results = await Promise.allSettled([...edits, ...imports])
      // An edit may come after the import that created a rule of its name; an import takes over what is there.
      for (const result of results.slice(edits.length)) assert.equal(result.status, 'fulfilled')
      for (const result of results.slice(4, edits.length)) assert.equal(result.status, 'fulfilled')
      assert.equal((await names()).length, 11)
    })

    test('a transaction of the host that rolls back takes no import along', async () => {
      const { client } = database
      await assert.rejects(
        client.$transaction(async (transaction) => {
          await transaction.rateLimitEvent.count()
          await imported({ rules: [API] })
          throw new Error('changed my mind')
        }),
        /changed my mind/,
      )
      assert.deepEqual(await names(), ['api'])
    })

    test('the app that imported obeys with its next request', async (t) => {
      const { app, statuses } = await startApp(t, { database, clock, plugin: { useDynamicRules: true } })
      assert.deepEqual(await statuses(2, '/api/x'), [200, 200])
      const { rules } = app.smartRateLimit
      await rules.import({ version: 1, rules: [{ ...API, rate: '1/m' }] })
      assert.deepEqual(await statuses(2, '/api/x'), [200, 429])
      assert.equal((await rules.export()).rules.length, 1)
      await rules.import({ version: 1, rules: [] })
      assert.deepEqual(await statuses(2, '/api/x'), [200, 200])
    })
  })
})
