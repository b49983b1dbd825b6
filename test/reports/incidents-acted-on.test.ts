/** Incidents that somebody acted on: by how much their refusals have to fall. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { incidentStories } from '../../src/reports/incidents/incidents.js'
import { createReportRunner } from '../../src/reports/report.js'
import { markIncident } from '../../src/rules/history/incident-changes.js'
import { type FakeClock, fakeClock } from '../support/clock.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'

const HOUR_13 = Date.parse('2026-11-24T13:00Z')
const TEN_MINUTES = 10 * MINUTE_MS

/** Returns a moment in each minute of a time, whose end is exclusive. */
function minutesFrom(startMs: number, endMs: number): number[] {
  return Array.from({ length: Math.ceil((endMs - startMs) / MINUTE_MS) }, (_, minute) => startMs + minute * MINUTE_MS)
}

forEachDatabase((_provider, open) => {
  async function start(t: TestContext, nowMs: number) {
    const clock = fakeClock(nowMs)
    const opened = await open(clock)
    t.after(opened.close)
    return { ...opened, clock, ...reportsOf(opened, clock) }
  }

  function reportsOf({ database, client }: TestDatabase, clock: FakeClock) {
    const { fromMs, table } = database.dialect
    const analytics = analyticsFor(database, clock)
    const stories = createReportRunner(database, clock)
    return {
      /** Logs so many refusals at each of some moments. */
      refuse: (client: string, count: number, moments: readonly number[], policy = 'search') =>
        logRows(
          database,
          moments.flatMap((timestampMs) =>
            Array.from({ length: count }, () => ({
              timestampMs,
              client,
              key: `rule:${policy}:${client}`,
              ruleName: policy,
              policy,
              path: `/${policy}`,
              outcome: 'over_limit' as const,
              allowed: false,
            })),
          ),
        ),
      /** Makes a change of rules or overrides at a moment. */
      async act(change: () => Promise<unknown>, atMs: number): Promise<void> {
        const [last] = await database.query<{ id: number | null }>(
          `SELECT MAX(id) AS id FROM ${table('rate_limit_change')}`,
        )
        await change()
        await database.execute(`UPDATE ${table('rate_limit_change')} SET changed_at = ${fromMs('$1')} WHERE id > $2`, [
          atMs,
          last?.id ?? 0,
        ])
      },
      addRule: (name: string) => client.rateLimitRule.create({ data: { name, pathPattern: `^/${name}`, rate: '5/m' } }),
      edit: (name: string, description: string) => () =>
        client.rateLimitRule.update({ where: { name }, data: { refusalMessage: description } }),
      block: (name: string) => () => client.rateLimitOverride.create({ data: { client: name, effect: 'deny' } }),
      states: async () =>
        Object.fromEntries((await analytics.getIncidents()).map(({ scope, state }) => [scope, state])),
      story: async (scope: string) => (await stories(incidentStories(20))).find((each) => each.scope === scope),
    }
  }

  for (const isFolded of [false, true]) {
    test(`half of the refusals in the ten minutes before the act are few enough, and one more is not, ${isFolded ? 'by the sums' : 'by the events'}`, async (t) => {
      const actMs = HOUR_13 + 25 * MINUTE_MS + 20_400
      const nowMs = actMs + 15 * MINUTE_MS + 10_300
      const { database, clock, refuse, act, addRule, block, edit, states } = await start(t, nowMs)
      const fold = () => (isFolded ? foldRollups(database, clock.now()) : undefined)
      await act(() => addRule('search'), 0)
      await act(() => addRule('team'), 0)
      const several = ['ip:203.0.113.1', 'ip:203.0.113.2']
      for (const client of ['user:1', ...several]) {
        await refuse(client, 70, [actMs - TEN_MINUTES])
        await refuse(client, 60, [actMs - TEN_MINUTES + 1])
        await refuse(client, 40, [actMs])
        await refuse(client, 30, [nowMs - TEN_MINUTES])
        await refuse(client, 49, [nowMs - TEN_MINUTES + 1])
      }
      // A policy, beside which a client is in an incident of its own that goes on.
      for (let each = 100; each < 120; each++) {
        await refuse(`user:${each}`, 10, [actMs - 5 * MINUTE_MS], 'team')
        await refuse(`user:${each}`, 4, [nowMs - 5 * MINUTE_MS], 'team')
      }
      await refuse('user:2', 20, minutesFrom(nowMs - 39 * MINUTE_MS, nowMs), 'team')
      await act(block('user:1'), actMs)
      await act(block('203.0.113.0/24'), actMs)
      await act(edit('team', 'slowly'), actMs)
      await fold()
      const acted = { 'user:1': 'acted_on', '203.0.113.0/24': 'acted_on', 'policy:team': 'acted_on', 'user:2': 'open' }
      assert.deepEqual(await states(), acted)

      await refuse('user:1', 1, [nowMs])
      for (const client of several) await refuse(client, 1, [nowMs - MINUTE_MS])
      await refuse('user:119', 20, [nowMs - MINUTE_MS], 'team')
      await fold()
      assert.deepEqual(await states(), acted, 'exactly half')

      await refuse('user:1', 1, [nowMs])
      await refuse('ip:203.0.113.2', 1, [nowMs - MINUTE_MS])
      await refuse('user:119', 1, [nowMs], 'team')
      await fold()
      const open4 = { 'user:1': 'open', '203.0.113.0/24': 'open', 'policy:team': 'open', 'user:2': 'open' }
      assert.deepEqual(await states(), open4)
    })
  }

  test('an edit that changes nothing leaves an incident open, with what was done; a block counts whatever is edited later', async (t) => {
    const { client, clock, refuse, act, addRule, block, edit, states, story } = await start(t, HOUR_13 + 40 * MINUTE_MS)
    await act(() => addRule('search'), 0)
    await refuse('user:1', 10, minutesFrom(HOUR_13, clock.now()))
    await act(edit('search', 'slowly'), HOUR_13 + 20 * MINUTE_MS)
    const edited = await story('user:1')
    assert.deepEqual([edited?.state, edited?.action?.what, edited?.action?.name], ['open', 'rule', 'search'])
    for (const data of [{ priority: 3 }, { rate: '6/m' }, { isActive: false }, { isActive: true }]) {
      const change = () => client.rateLimitRule.update({ where: { name: 'search' }, data })
      await act(change, HOUR_13 + 20 * MINUTE_MS)
      assert.deepEqual(await states(), { 'user:1': 'open' }, JSON.stringify(data))
    }

    await act(block('user:1'), clock.now())
    const stateAfter = async (minutes: number) => {
      clock.advance(minutes * MINUTE_MS)
      return (await states())['user:1']
    }
    assert.equal(await stateAfter(0), 'open')
    assert.equal(await stateAfter(3), 'open')
    assert.equal(await stateAfter(2), 'acted_on')
    await act(edit('search', 'more slowly'), clock.now() + MINUTE_MS)
    assert.equal(await stateAfter(4), 'acted_on')
  })

  test('what was done hours ago counts as well, by the same ten minutes', async (t) => {
    const actMs = HOUR_13 + 10 * MINUTE_MS
    const { database, clock, refuse, act, block, states } = await start(t, actMs + 3.5 * HOUR_MS)
    for (const [client, after] of [
      ['user:1', 5],
      ['user:2', 6],
    ] as const) {
      await refuse(client, 10, minutesFrom(HOUR_13, actMs))
      await refuse(client, after, minutesFrom(actMs, clock.now()))
      await act(block(client), actMs)
    }
    for (const isFolded of [false, true]) {
      if (isFolded) await foldRollups(database, clock.now())
      assert.deepEqual(await states(), { 'user:1': 'acted_on', 'user:2': 'open' })
    }
  })

  test('an incident that is ignored stays so until it is over, whatever is edited meanwhile', async (t) => {
    const { database, clock, refuse, act, addRule, edit, states, story } = await start(t, HOUR_13 + 30 * MINUTE_MS)
    await act(() => addRule('search'), 0)
    await refuse('user:1', 10, minutesFrom(HOUR_13, clock.now()))
    await markIncident(database, 'user:1', true, clock.now())
    await act(edit('search', 'slowly'), clock.now() + MINUTE_MS)
    clock.advance(2 * MINUTE_MS)
    assert.deepEqual(await states(), { 'user:1': 'acted_on' })
    assert.equal((await story('user:1'))?.action?.what, 'ignored')
    await markIncident(database, 'user:1', false, clock.now())
    assert.deepEqual(await states(), { 'user:1': 'open' })
    assert.equal((await story('user:1'))?.action?.what, 'rule')
  })
})
