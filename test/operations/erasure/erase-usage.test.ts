/** The usage of one client is deleted, and that of others stays. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createAddressPrivacy } from '../../../src/clients/address-privacy.js'
import { systemClock } from '../../../src/ground/time/clock.js'
import { eraseClient } from '../../../src/operations/erasure/erase-client.js'
import { pluginParts } from '../../../src/plugin/parts.js'
import type { RateLimitOptions } from '../../../src/plugin/settings/options.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { forEachDatabase, type TestDatabase } from '../../support/databases.js'
import { eventually } from '../../support/eventually.js'
import { charge } from '../../support/usage.js'

const privacy = createAddressPrivacy({ addresses: 'pseudonym', secret: 'a secret of the host, long', ipv6Subnet: 64 })
const PSEUDONYM = privacy.toLogged('ip:203.0.113.7')
const THEIRS = ['ip:203.0.113.7', PSEUDONYM, `user:9|${PSEUDONYM}`]
const OTHERS = ['ip:203.0.113.70', 'user:203.0.113.7', 'key:ip:203.0.113.7x']

async function openUsage(t: TestContext, database: TestDatabase, plugin: RateLimitOptions = {}) {
  const { app } = await startApp(t, { database, plugin: { usage: ['tokens'], ...plugin } })
  const { usage } = pluginParts(app)
  assert.ok(usage)
  return { app, usage }
}

function erase({ database }: TestDatabase, dryRun: boolean, eventSpool?: string) {
  const dependencies = { database, clock: systemClock, ipv6Subnet: 64, privacy, redis: undefined, namespace: undefined }
  return eraseClient({ ...dependencies, eventSpool }, '203.0.113.7', { dryRun, batchSize: 2 })
}

async function clientsOf({ log: { dialect, query } }: TestDatabase): Promise<string[]> {
  const sql = `SELECT DISTINCT client FROM ${dialect.table('rate_limit_usage')} ORDER BY client`
  return (await query<{ client: string }>(sql)).map(({ client }) => client)
}

forEachDatabase((provider) => {
  test('an address goes with its pseudonym and its combinations, and look-alikes stay', async (t) => {
    const database = await openDatabase(t, provider)
    const { usage } = await openUsage(t, database)
    for (const client of [...THEIRS, ...OTHERS]) usage.record(charge({ client }))
    await usage.flush()
    assert.equal((await erase(database, true)).usage, 6)
    assert.equal((await clientsOf(database)).length, 6)
    assert.equal((await erase(database, false)).usage, 6)
    assert.deepEqual(await clientsOf(database), OTHERS.toSorted())
    assert.equal((await erase(database, false)).usage, 0)
  })
})

test('what a server left in its spool is found, and goes too', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  const database = await openDatabase(t, 'sqlite')
  const { app, usage } = await openUsage(t, database, { eventSpool: folder })
  await database.log.execute('ALTER TABLE rate_limit_usage RENAME TO away')
  for (const client of [...THEIRS, ...OTHERS]) usage.record(charge({ client }))
  await eventually('they are in the spool', () => usage.stats().spooled === 6)
  await database.log.execute('ALTER TABLE away RENAME TO rate_limit_usage')
  const kept = (await erase(database, true, folder)).kept.join('\n')
  assert.match(kept, /3 sums of usage in the spool of a running server/)
  await app.close()
  assert.equal((await erase(database, false, folder)).usage, 6)
  assert.deepEqual(await clientsOf(database), OTHERS.toSorted())
  assert.deepEqual(readdirSync(join(folder, 'usage')), [])
})
