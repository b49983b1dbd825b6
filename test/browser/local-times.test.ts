/** Staff read times on their own clock, with UTC on hover; without JavaScript all times are in UTC, and say so. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { databaseFor } from '../../src/database/database.js'
import { findFaults, inChromium, openPage } from '../support/browser.js'
import { logRows } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const CLIENT = 'ip:203.0.113.7'
const PAGES = [
  '',
  `client.html?client=${CLIENT}&days=1`,
  `offender.html?key=${CLIENT}`,
  'rules.html',
  'explain.html?path=/',
  'alerts.html',
  'overrides.html',
  'exchange.html',
  'counters.html',
  'usage.html',
]
/** Half an hour off, so that no hour of the chart is one of theirs. */
const KOLKATA = { timezoneId: 'Asia/Kolkata' }

inChromium(() => {
  test('every page has the times of the reader, with UTC on hover', async (t) => {
    const staff = { isStaff: () => ({ actor: 'alice', role: 'operator' }) as const }
    const { app, origin } = await startWithStaff(t, 'sqlite', staff, { useDynamicRules: true })
    const { client } = app.smartRateLimit
    await logRows(databaseFor(client), [
      { timestampMs: NOW_MS - 1_000, client: CLIENT, key: CLIENT, count: 5, limit: 5 },
    ])
    const expiresAt = new Date(NOW_MS + 3_600_000)
    await client.rateLimitOverride.create({ data: { client: CLIENT, effect: 'deny', expiresAt } })
    const { page, complaints } = await openPage(t, KOLKATA)
    for (const path of PAGES) {
      await page.goto(origin + DASHBOARD + path)
      const asOf = page.getByText('As of').locator('time')
      assert.equal(await asOf.textContent(), '2026-01-15 17:30:00', path)
      assert.equal(await asOf.getAttribute('title'), '2026-01-15 12:00:00 UTC')
      await page.getByText('Times are Asia/').waitFor()
      const shown = await page.locator('main').innerText()
      assert.doesNotMatch(shown, /UTC/, path)
      assert.deepEqual(await findFaults(page), [])
    }

    await page.goto(`${origin}${DASHBOARD}client.html?client=${CLIENT}&days=1`)
    await page.getByRole('heading', { name: 'Denied until 2026-01-15 18:30:00' }).waitFor()
    await page.getByRole('cell', { name: '2026-01-15 17:29:59', exact: true }).waitFor()
    const chart = page.locator('svg.chart')
    assert.match((await chart.getAttribute('aria-label')) ?? '', /2026-01-15 16:30–17:30 \(11:00–12:00 UTC\)\.$/)
    // The bars begin at noon in UTC, half past five; the labels are round times of the reader.
    assert.deepEqual(await chart.locator('.times text').allTextContents(), [
      '18:00',
      '21:00',
      'Jan 15',
      '03:00',
      '06:00',
      '09:00',
      '12:00',
      '15:00',
      '18:00',
    ])
    assert.equal(await chart.locator('.times text').first().getAttribute('x'), '2.00%')
    await page.getByText('The same as a table').click()
    await page.getByRole('rowheader', { name: '2026-01-15 16:30–17:30' }).waitFor()

    await page.goto(`${origin}${DASHBOARD}?days=1`)
    assert.equal(
      await page.getByRole('cell', { name: '17:29:59' }).locator('time').getAttribute('title'),
      '11:59:59 UTC',
    )
    assert.deepEqual(complaints, [])
  })

  test('days of a chart are days in UTC for every reader', async (t) => {
    const { origin, app } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
    await logRows(databaseFor(app.smartRateLimit.client), [
      { timestampMs: NOW_MS - 1_000, client: CLIENT, key: CLIENT },
    ])
    const { page } = await openPage(t, KOLKATA)
    await page.goto(`${origin}${DASHBOARD}?days=30`)
    await page.getByText('The same as a table').click()
    await page.getByRole('columnheader', { name: 'Day (UTC)' }).waitFor()
    await page.getByRole('rowheader', { name: '2026-01-15', exact: true }).waitFor()
  })

  test('without JavaScript, and where the clock is in UTC, times say that they are in UTC', async (t) => {
    const { origin, app } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
    await logRows(databaseFor(app.smartRateLimit.client), [
      { timestampMs: NOW_MS - 1_000, client: CLIENT, key: CLIENT },
    ])
    for (const options of [{ ...KOLKATA, javaScriptEnabled: false }, { timezoneId: 'UTC' }]) {
      const { page } = await openPage(t, options)
      await page.goto(`${origin}${DASHBOARD}client.html?client=${CLIENT}`)
      assert.equal(await page.getByText('As of').textContent(), 'As of 2026-01-15 12:00:00 UTC\n')
      await page.getByRole('columnheader', { name: 'Time (UTC)' }).waitFor()
      await page.getByRole('cell', { name: '2026-01-15 11:59:59', exact: true }).waitFor()
    }
  })
})
