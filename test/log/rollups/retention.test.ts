/** What goes with old events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS } from '../../../src/ground/time/clock.js'
import { cleanupOldEvents } from '../../../src/log/rollups/retention.js'
import { listChanges } from '../../../src/rules/history/history.js'
import { markIncident } from '../../../src/rules/history/incident-changes.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { foldRollups } from '../../support/rollups.js'

forEachDatabase((_provider, open) => {
  test('who ignored an incident is forgotten with the events of that time; changes of rules stay', async (t) => {
    const clock = fakeClock()
    const { database, client, close } = await open(clock)
    t.after(close)
    const { fromMs, table } = database.dialect
    await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '1/m' } })
    await database.execute(`UPDATE ${table('rate_limit_change')} SET changed_at = ${fromMs('$1')}`, [
      clock.now() - 40 * DAY_MS,
    ])
    for (const days of [31, 29]) await markIncident(database, `user:${days}`, true, clock.now() - days * DAY_MS)
    const names = async () => (await listChanges(database, undefined)).map(({ entity, name }) => `${entity} ${name}`)

    await cleanupOldEvents(database, clock, { dryRun: true })
    assert.deepEqual(await names(), ['incident user:29', 'incident user:31', 'rule login'])
    await cleanupOldEvents(database, clock)
    assert.deepEqual(await names(), ['incident user:29', 'rule login'])
  })

  test('of several runs at once, each goes on until it is stopped, or no old event is left', async (t) => {
    const clock = fakeClock()
    const { log, close } = await open(clock)
    t.after(close)
    const timestampMs = clock.now() - 40 * DAY_MS
    await logRows(
      log,
      Array.from({ length: 700 }, () => ({ timestampMs, client: 'user:1', key: 'user:1' })),
    )
    await foldRollups(log, clock.now())
    /** Deletes old events until so many are deleted. */
    const run = (most = Number.POSITIVE_INFINITY) => {
      const stop = new AbortController()
      const onProgress = (deleted: number) => {
        if (deleted >= most) stop.abort()
      }
      return cleanupOldEvents(log, clock, { batchSize: 20, onProgress, signal: stop.signal })
    }
    assert.deepEqual(await Promise.all([run(200), run(200), run(200)]), [200, 200, 200])
    assert.equal(await run(), 100)
  })
})
