/** The traces of a client whose requests had limits of several groups: erased, kept in private, and deleted with their age. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createAddressPrivacy } from '../../../src/clients/address-privacy.js'
import { HOUR_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../../src/index.js'
import { STATE_TABLE_NAMES } from '../../../src/limiter/stores/sql/state-cleanup.js'
import { cleanupOldEvents } from '../../../src/log/rollups/retention.js'
import { eraseClient } from '../../../src/operations/erasure/erase-client.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { compareReports } from '../../support/compare-reports.js'
import { forEachDatabase, type TestDatabase } from '../../support/databases.js'
import { long } from '../../support/long.js'
import { foldRollups } from '../../support/rollups.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.70'
const SECRET = 'a secret of the host, long enough'
const SUMS = [
  'rate_limit_client_key',
  'rate_limit_client_rollup',
  'rate_limit_request_rollup',
  'rate_limit_blocked_rollup',
  'rate_limit_traffic_rollup',
  'rate_limit_rule_rollup',
]

/** Whom requests are of: the address, the user and its organisation. */
const SENDERS = [
  { from: ALICE, user: { id: 7, org: 'acme' } },
  { from: BOB, user: { id: 77, org: 'acme' } },
  { from: ALICE, user: { id: 8, org: 'other' } },
  { from: BOB, user: null },
]

/** Serves requests of a limit by address, and of rules by user, organisation, both and for all, over two days. */
async function serve(t: TestContext, database: TestDatabase, plugin: RateLimitOptions = {}) {
  const started = await startApp(t, {
    database,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      user: ({ headers: { authorization } }) => (authorization === undefined ? null : JSON.parse(authorization)),
      middleware: { defaultRate: '6/m' },
      ...plugin,
    },
  })
  const { app, clock, statuses } = started
  for (const data of [
    { name: 'user', group: 'user', key: 'user', rate: '2/m' },
    { name: 'org', group: 'org', key: 'user.org', rate: '3/m', algorithm: 'sliding_window' },
    { name: 'pair', group: 'pair', key: 'user+ip', rate: '9/m', algorithm: 'token_bucket' },
    { name: 'slow', group: 'all', key: 'all', rate: '3/m', pathPattern: '^/slow', priority: 1 },
    { name: 'all', group: 'all', key: 'all', rate: '90/m', block: false },
  ]) {
    await app.smartRateLimit.client.rateLimitRule.create({ data: { pathPattern: '^/', ...data } })
  }
  for (const hours of [1, 5, 30]) {
    for (const { from, user } of SENDERS) {
      const options = { from, ...(user && { headers: { authorization: JSON.stringify(user) } }) }
      for (const path of ['/', '/slow']) await statuses(2, path, options)
    }
    clock.advance(hours * HOUR_MS)
  }
  await app.smartRateLimit.events.flush()
  return started
}

async function rowsOf({ database, log }: TestDatabase, tables: readonly string[]): Promise<string[]> {
  const rows: string[] = []
  for (const table of tables) {
    for (const { query, dialect } of new Set([database, log])) {
      const found = await query<object>(`SELECT * FROM ${dialect.table(table)}`)
      rows.push(...found.map((row) => JSON.stringify({ table, ...row })))
    }
  }
  return rows.sort()
}

const EVENTS_AND_SUMS = ['rate_limit_event', ...SUMS]

function erase(database: TestDatabase, client: string, now: () => number, secret?: string) {
  return eraseClient(
    {
      database: database.database,
      clock: { now },
      ipv6Subnet: 64,
      privacy:
        secret === undefined ? undefined : createAddressPrivacy({ addresses: 'pseudonym', secret, ipv6Subnet: 64 }),
      redis: undefined,
      namespace: undefined,
      eventSpool: undefined,
    },
    client,
    { batchSize: 7, dryRun: false },
  )
}

async function compareAll(database: TestDatabase, nowMs: number): Promise<void> {
  for (const days of [1, 2, 60]) await compareReports(database.database, nowMs, days, { rule: 'all' })
}

forEachDatabase((provider) => {
  for (const state of ['in the log', 'in the sums']) {
    test(
      `a client leaves no trace in any group, others keep theirs, and reports are what a recount says: ${state}`,
      long(),
      async (t) => {
        const database = await openDatabase(t, provider)
        const { app, clock } = await serve(t, database)
        // A server that sums up events at the same moment may keep a day's sums: the erasure is repeated then.
        await app.close()
        if (state === 'in the sums') await foldRollups(database.database, clock.now())
        await compareAll(database, clock.now())
        for (const [client, name, ofOthers] of [
          ['user:7', /user:7(?!7)|"user_?id":"?7"?[,}]/i, /user:77/],
          ['user.org:acme', /acme/, /other/],
          [`ip:${ALICE}`, /203\.0\.113\.7(?!0)/, /203\.0\.113\.70/],
        ] as const) {
          const counters = (await rowsOf(database, STATE_TABLE_NAMES)).filter((row) => !name.test(row))
          assert.ok((await rowsOf(database, STATE_TABLE_NAMES)).length > counters.length, `${client} has counters`)
          const { events, kept } = await erase(database, client, clock.now)
          assert.ok(events > 0)
          assert.doesNotMatch(kept.join(), /written meanwhile/)
          assert.deepEqual(await rowsOf(database, STATE_TABLE_NAMES), counters, 'counters of others stay as they are')
          const rows = await rowsOf(database, EVENTS_AND_SUMS)
          assert.deepEqual(
            rows.filter((row) => name.test(row)),
            [],
          )
          assert.ok([...rows, ...counters].some((row) => ofOthers.test(row)))
          await compareAll(database, clock.now())
        }
      },
    )
  }

  test('sums of rules that applied are deleted with the events of their time', long(), async (t) => {
    const database = await openDatabase(t, provider)
    const { clock } = await serve(t, database)
    await foldRollups(database.database, clock.now())
    const sumsOfRules = () => rowsOf(database, ['rate_limit_rule_rollup'])
    const all = await sumsOfRules()
    // Requests were sent 36, 35 and 30 hours ago.
    for (const [days, isLeft] of [
      [33 / 24, true],
      [1, false],
    ] as const) {
      assert.ok((await cleanupOldEvents(database.database, clock, { olderThanDays: days })) > 0)
      await compareAll(database, clock.now())
      await foldRollups(database.database, clock.now())
      const left = await sumsOfRules()
      assert.ok(left.length < all.length)
      assert.equal(left.length > 0, isLeft)
      await compareAll(database, clock.now())
    }
    assert.deepEqual(await rowsOf(database, EVENTS_AND_SUMS), [])
  })

  test(
    'addresses are pseudonyms, and headers hashes, under the keys of all groups, and are erased by them',
    long(),
    async (t) => {
      const database = await openDatabase(t, provider)
      const hidden = { privacy: { addresses: 'pseudonym' }, hashHeaderKeys: true, hashSecret: SECRET } as const
      const { app, clock, statuses } = await serve(t, database, hidden)
      await app.smartRateLimit.client.rateLimitRule.create({
        data: { name: 'api-key', group: 'api-key', pathPattern: '^/', key: 'header:x-api-key', rate: '1/m' },
      })
      const withKey = { from: ALICE, headers: { 'x-api-key': 'a secret of Alice' } }
      assert.deepEqual(await statuses(2, '/', withKey), [200, 429])
      await app.smartRateLimit.events.flush()
      await foldRollups(database.database, clock.now())
      const everywhere = [...EVENTS_AND_SUMS, ...STATE_TABLE_NAMES]
      const stored = await rowsOf(database, everywhere)
      assert.deepEqual(
        stored.filter((row) => /203\.0\.113|a secret of Alice/.test(row)),
        [],
      )
      assert.ok(stored.some((row) => /"key":"rule:api-key:/.test(row)))
      const { clients } = await erase(database, `ip:${ALICE}`, clock.now, SECRET)
      const pseudonym = clients[1]?.slice('ip:'.length) ?? ''
      assert.match(pseudonym, /^~[0-9a-f]{32}$/)
      const rows = await rowsOf(database, everywhere)
      assert.deepEqual(
        rows.filter((row) => row.includes(pseudonym)),
        [],
      )
      assert.ok(rows.some((row) => /user:77\|(?:ip:)?~/.test(row)))
      await compareAll(database, clock.now())
    },
  )
})
