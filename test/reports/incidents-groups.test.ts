/** Incidents of requests that several rules refused: one of them decides, and an edit of any is what was done about it. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { incidentStories } from '../../src/reports/incidents/incidents.js'
import { createReportRunner } from '../../src/reports/report.js'
import { dateChanges } from '../support/changes.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'

const HOUR_13 = Date.parse('2026-11-24T13:00Z')

function refusals(count: number, its: Partial<RateLimitEvent>): Partial<RateLimitEvent>[] {
  const { client = '', policy = '' } = its
  const key = `rule:${policy}:${client.replace(/^ip:/, '')}`
  const event = { key, ruleName: policy, allowed: false, outcome: 'over_limit', ...its } as const
  return Array.from({ length: count }, () => event)
}

forEachDatabase((_provider, open) => {
  test('an edit of a rule that refused beside the deciding one is what was done about an incident', async (t) => {
    const clock = fakeClock(HOUR_13 + 30 * MINUTE_MS)
    const { database, client, close } = await open(clock)
    t.after(close)
    const analytics = analyticsFor(database, clock)
    const timestampMs = HOUR_13 + MINUTE_MS
    await logRows(database, [
      ...refusals(60, { timestampMs, client: 'user:1', policy: 'account', rules: '-account:-burst:+all' }),
      ...refusals(60, { timestampMs, client: 'user:2', policy: 'account', rules: '-account:+burst:+all' }),
      // The refusals of many make an incident of the policy.
      ...Array.from({ length: 500 }, (_, user) =>
        refusals(1, { timestampMs, client: `user:${100 + user}`, policy: 'team', rules: '-team:-burst' }),
      ).flat(),
    ])
    for (const name of ['account', 'burst', 'all', 'team']) {
      await client.rateLimitRule.create({ data: { name, pathPattern: '^/', rate: '5/m', group: name } })
    }
    const states = async () =>
      Object.fromEntries((await analytics.getIncidents()).map(({ scope, state }) => [scope, state]))
    const open3 = { 'user:1': 'open', 'user:2': 'open', 'policy:team': 'open' }
    assert.deepEqual(await states(), open3)

    const edit = (name: string, rate: string) => client.rateLimitRule.update({ where: { name }, data: { rate } })
    await edit('all', '50/m')
    assert.deepEqual(await states(), open3, 'it let the requests pass')
    await edit('burst', '50/m')
    assert.deepEqual(await states(), { 'user:1': 'acted_on', 'user:2': 'open', 'policy:team': 'acted_on' })
    await foldRollups(database, clock.now())
    assert.deepEqual(await states(), { 'user:1': 'acted_on', 'user:2': 'open', 'policy:team': 'acted_on' })

    await dateChanges(database, clock.now())
    clock.advance(10 * MINUTE_MS)
    const stories = await createReportRunner(database, clock)(incidentStories(9))
    const [story] = stories.filter(({ scope }) => scope === 'user:1')
    assert.deepEqual([story?.action?.what, story?.action?.name, story?.policies], ['rule', 'burst', ['account']])
    assert.deepEqual(story?.effect?.after, { allowed: 0, refused: 0, denied: 0 })
  })

  test('an edit before a rule had refused as much as makes an incident is what may have caused it', async (t) => {
    const clock = fakeClock(HOUR_13 + 30 * MINUTE_MS)
    const { database, client, close } = await open(clock)
    t.after(close)
    const its = { client: 'user:1', policy: 'account', rules: '-account:-burst' }
    await logRows(database, [
      ...refusals(10, { ...its, timestampMs: HOUR_13 }),
      ...refusals(90, { ...its, timestampMs: HOUR_13 + 20 * MINUTE_MS }),
    ])
    await client.rateLimitRule.create({ data: { name: 'burst', pathPattern: '^/', rate: '5/m', group: 'burst' } })
    await client.rateLimitRule.update({ where: { name: 'burst' }, data: { rate: '4/m' } })
    const stateAfterEdit = async (atMs: number) => {
      await dateChanges(database, atMs)
      return (await analyticsFor(database, clock).getIncidents())[0]?.state
    }
    assert.equal(await stateAfterEdit(HOUR_13 + 10 * MINUTE_MS), 'open')
    assert.equal(await stateAfterEdit(HOUR_13 + 25 * MINUTE_MS), 'acted_on')
    assert.equal(await stateAfterEdit(HOUR_13 - HOUR_MS), 'open')
  })
})
