/** Of all runs one tells of something, and what could not be told is told by the next. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { Ledger } from '../../../src/operations/alerts/ledger.js'
import { startAlerts } from '../../support/alerts.js'
import { forEachDatabase } from '../../support/databases.js'

const WATCH = 'webhook:abc'
const NEWS = { key: 'one', news: 'found' } as const

forEachDatabase((_provider, open) => {
  async function start(t: TestContext) {
    const {
      clock,
      database: { database },
    } = await startAlerts(t, open)
    const ledger = () => new Ledger(database, clock, WATCH)
    /** Returns the ledger of a run that has read what was told. */
    const run = async () => {
      const opened = ledger()
      await opened.read()
      return opened
    }
    const claimFor = (untilMs: number) =>
      database.execute(
        `UPDATE ${database.dialect.table('rate_limit_alert')} SET claim = 'other', claimed_until = ${database.dialect.fromMs('$1')}`,
        [untilMs],
      )
    return { clock, ledger, run, claimFor }
  }

  test('of runs that have read the same, one claims each finding', async (t) => {
    const { run } = await start(t)
    const findings = ['one', 'two', 'three'].map((key) => ({ key, news: 'found' }) as const)
    const ledgers = await Promise.all([run(), run(), run()])
    const claims = await Promise.all(ledgers.map((ledger, index) => ledger.claim(findings.toSpliced(index, 1))))
    const keys = claims.flatMap((claim) => claim.findings.map(({ key }) => key))
    assert.deepEqual(keys.toSorted(), ['one', 'three', 'two'])
  })

  test('a run that has read what another one told since claims nothing', async (t) => {
    const { run } = await start(t)
    const [first, late] = [await run(), await run()]
    await (await first.claim([NEWS])).settle(true)
    assert.deepEqual((await late.claim([NEWS])).findings, [])
    const over = { key: 'one', news: 'over' } as const
    const [second, later] = [await run(), await run()]
    await (await second.claim([over])).settle(true)
    assert.deepEqual((await later.claim([over])).findings, [])
  })

  test('a finding that could not be told is claimed by the next run', async (t) => {
    const { run } = await start(t)
    await (await (await run()).claim([NEWS])).settle(false)
    const { findings } = await (await run()).claim([NEWS])
    assert.deepEqual(findings, [NEWS])
  })

  test('a claim ends after two minutes, and one of a wrong clock is none', async (t) => {
    const { clock, run, claimFor } = await start(t)
    await (await run()).claim([NEWS])
    const isClaimed = async () => (await (await run()).claim([NEWS])).findings.length === 0
    assert.equal(await isClaimed(), true)
    clock.advance(2 * MINUTE_MS)
    assert.equal(await isClaimed(), false)
    await claimFor(clock.now() + DAY_MS)
    assert.equal(await isClaimed(), false)
  })

  test('what was told is remembered for a week after it was found last', async (t) => {
    const { clock, ledger } = await start(t)
    const claim = await ledger().claim([
      { ...NEWS, count: 7 },
      { key: 'two', news: 'found and over' },
    ])
    await claim.settle(true)
    const toldMs = clock.now()
    const one = { key: 'one', count: 7, notifiedMs: toldMs, resolvedMs: null }
    const two = { key: 'two', count: 0, notifiedMs: toldMs, resolvedMs: toldMs }
    clock.advance(6 * DAY_MS)
    await ledger().keep(['one'])
    const entries = await ledger().read()
    assert.deepEqual([entries.get('one'), entries.get('two')], [one, two])
    clock.advance(2 * DAY_MS)
    assert.deepEqual([...(await ledger().read()).values()], [one])
    clock.advance(6 * DAY_MS)
    assert.deepEqual([...(await ledger().read()).values()], [])
  })
})
