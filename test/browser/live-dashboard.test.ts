/** Staff leave the dashboard open: it follows what happens, and takes nothing out of their hands. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { focused, inChromium, openClockedPage, openPage } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const OFFENDER = { key: 'ip:203.0.113.7', client: 'ip:203.0.113.7', atMs: NOW_MS - 1_000 }
/** Longer than any page waits for a newer report. */
const LATER_MS = 600_000

async function start(t: TestContext) {
  const state = { isStaff: true }
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => state.isStaff })
  const { client } = started.app.smartRateLimit
  await logEvents(client, { ...OFFENDER, allowed: 5, blocked: 2 })
  return { ...started, client, state, url: `${started.origin}${DASHBOARD}` }
}

inChromium(() => {
  test('an open page follows by itself: what is open, focused and typed in stays', async (t) => {
    const { url, client, clock } = await start(t)
    const { page, complaints } = await openClockedPage(t)
    await page.clock.install()
    await page.goto(`${url}?minutes=15`)
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByText('The same as a table').click()
    await page.locator('.filter > summary').click()
    await page.getByLabel('Path begins with').fill('/half-typ')
    await page.getByRole('link', { name: OFFENDER.key }).last().focus()

    await logEvents(client, { ...OFFENDER, blocked: 990 })
    await logEvents(client, { ...OFFENDER, denied: 3 })
    clock.advance(LATER_MS)
    await page.clock.fastForward(LATER_MS)
    await page.getByRole('group', { name: /^1,000 requests, 992 .* 3 denied/ }).waitFor()

    assert.ok(await page.getByRole('region', { name: 'Requests over time, as a table' }).isVisible())
    assert.equal(await focused(page), OFFENDER.key)
    assert.equal(await page.getByLabel('Path begins with').inputValue(), '/half-typ')
    assert.deepEqual(complaints, [])
  })

  test('a row that was opened stays open where another one goes before it', async (t) => {
    const { url, client, clock } = await start(t)
    for (const last of [1, 2, 3]) {
      const address = `ip:192.0.2.${last}`
      await logEvents(client, { key: address, client: address, blocked: 4, atMs: NOW_MS - 1_000 })
    }
    const { page } = await openClockedPage(t)
    await page.clock.install()
    await page.goto(`${url}?minutes=15`)
    await page.getByText('3 of its clients, counted together').click()
    const lead = page.locator('.lead')
    assert.match((await lead.textContent()) ?? '', /^3 clients of 192\.0\.2\.0\/24 cause 85% of the refusals /)
    // The focus is in the list, and the pointer over it.
    await page.getByRole('heading', { level: 1 }).click()
    await logEvents(client, { ...OFFENDER, blocked: 50 })
    clock.advance(LATER_MS)
    await page.clock.fastForward(LATER_MS)
    await page.getByRole('group', { name: /^69 requests/ }).waitFor()
    assert.match((await lead.textContent()) ?? '', /^ip:203\.0\.113\.7 causes 81% of the refusals /)

    const clients = page.getByRole('region', { name: 'Clients' })
    assert.deepEqual(await clients.getByRole('rowheader').locator('.who > a').allTextContents(), [
      OFFENDER.key,
      'ip:192.0.2.0/24',
    ])
    assert.ok(await clients.getByRole('link', { name: 'ip:192.0.2.3' }).isVisible())
  })

  test('no row of a list moves while somebody points at one, has the focus there or opened a menu', async (t) => {
    const staff = { isStaff: () => ({ actor: 'alice', role: 'operator' }) as const }
    const { app, clock, origin } = await startWithStaff(t, 'sqlite', staff, { useDynamicRules: true })
    const { client } = app.smartRateLimit
    const other = { key: 'user:7', client: 'user:7' }
    await logEvents(client, { ...OFFENDER, blocked: 20 })
    await logEvents(client, { ...other, blocked: 5, atMs: NOW_MS - 1_000 })
    const { page, complaints } = await openClockedPage(t)
    await page.clock.install()
    await page.goto(`${origin}${DASHBOARD}?days=7`)
    await page.getByText('Live', { exact: true }).waitFor()
    const clients = page.getByRole('region', { name: 'Clients' })
    const names = () => clients.getByRole('rowheader').locator('.who > a').allTextContents()
    const row = clients.getByRole('row').filter({ hasText: 'user:7' })
    const block = row.getByRole('button', { name: 'Block user:7 for 2 h' })
    const title = page.getByRole('heading', { level: 1 })
    const changed = page.getByText('The list has changed', { exact: true })
    const live = page.getByText('Live', { exact: true })
    let refused = 25
    /** Another client takes the first place, by more than all before. */
    const overtake = async (its: { key: string; client: string }) => {
      const place = await block.boundingBox()
      const before = await names()
      const blocked = 2 * refused
      await logEvents(client, { ...its, blocked, atMs: clock.now() - 1_000 })
      refused += blocked
      clock.advance(LATER_MS)
      await page.clock.fastForward(LATER_MS)
      await page.getByRole('group', { name: new RegExp(`^${refused} requests`) }).waitFor()
      await changed.waitFor()
      assert.deepEqual(await names(), before)
      assert.deepEqual(await block.boundingBox(), place)
    }
    assert.deepEqual(await names(), [OFFENDER.key, 'user:7'])

    await block.hover()
    await overtake(other)
    await title.hover()
    await page.clock.runFor(1)
    await live.waitFor()
    assert.deepEqual(await names(), ['user:7', OFFENDER.key])

    await row.getByRole('link', { name: 'user:7', exact: true }).focus()
    await overtake(OFFENDER)
    await page.getByLabel('Search everything').focus()
    await page.clock.runFor(1)
    await live.waitFor()
    assert.deepEqual(await names(), [OFFENDER.key, 'user:7'])

    await row.getByText('Actions for user:7').click()
    await title.hover()
    await overtake({ key: 'user:8', client: 'user:8' })
    await title.click()
    await page.clock.runFor(1)
    await live.waitFor()
    assert.deepEqual(await names(), ['user:8', OFFENDER.key, 'user:7'])
    assert.deepEqual(complaints, [])
  })

  test('a page that follows says when its session is over, and when the server does not answer', async (t) => {
    const { url, app, state } = await start(t)
    const { page } = await openClockedPage(t)
    await page.clock.install()
    await page.goto(url)
    const { page: other } = await openClockedPage(t)
    await other.clock.install()
    await other.goto(url)
    state.isStaff = false
    await page.clock.fastForward(LATER_MS)
    await page.getByText('No longer live: load the page again to sign in').waitFor()

    await app.close()
    await other.clock.fastForward(LATER_MS)
    await other.getByText('The server does not answer; trying again').waitFor()
  })

  test('a link stops a page from following, and another one lets it follow again', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t)
    await page.goto(url)
    await page.getByRole('link', { name: 'Stop following' }).click()
    await page.getByRole('link', { name: 'Follow live' }).click()
    await page.getByText('Live', { exact: true }).waitFor()
  })

  test("a client's page follows by the minute: what is typed into its forms stays, and an action is of what is shown", async (t) => {
    const staff = { isStaff: () => ({ actor: 'alice', role: 'operator' }) as const }
    const { app, clock, origin } = await startWithStaff(t, 'sqlite', staff, { useDynamicRules: true })
    const { client } = app.smartRateLimit
    await logEvents(client, { ...OFFENDER, allowed: 5, blocked: 2 })
    const { page, complaints } = await openClockedPage(t)
    await page.clock.install()
    await page.goto(`${origin}${DASHBOARD}client.html?client=${OFFENDER.client}`)
    await page.getByRole('group', { name: 'Window' }).getByRole('button', { name: '15 min' }).click()
    await page.waitForURL(/minutes=15/)
    await page.getByText('Live', { exact: true }).waitFor()
    const later = async () => {
      clock.advance(LATER_MS)
      await page.clock.fastForward(LATER_MS)
    }
    // Nothing is typed yet: what another operator does changes the forms, too.
    const other = await client.rateLimitOverride.create({ data: { client: OFFENDER.client, effect: '9/m' } })
    await later()
    await page.getByRole('heading', { name: 'Limited to 9/m for ever' }).waitFor()
    await page.getByText('Actions for').click()

    await page.getByLabel('Why?').fill('scrapes the sea')
    await page.locator('[name="keep"]').selectOption('7 days')
    await page.getByLabel('Search everything').focus()
    await client.rateLimitOverride.delete({ where: { id: other.id } })
    await logEvents(client, { ...OFFENDER, atMs: clock.now(), blocked: 993 })
    await later()
    await page.getByRole('group', { name: /^993 requests, 993 / }).waitFor()
    assert.equal(await page.getByRole('heading', { name: 'Limited to 9/m for ever' }).count(), 0)
    assert.equal(await page.getByLabel('Why?').inputValue(), 'scrapes the sea')
    assert.equal(await page.locator('[name="keep"]').inputValue(), '7d')

    // The form is of the override that has ended since: the action does nothing, says so, and keeps what was typed.
    await page.getByText('Actions for').click()
    await page.getByRole('button', { name: 'Exempt from all limits' }).click()
    await page.getByText('another change was made since you loaded the page').waitFor()
    await logEvents(client, { ...OFFENDER, atMs: clock.now(), blocked: 7 })
    await later()
    await page.getByText('Live', { exact: true }).waitFor()
    await page.getByRole('group', { name: /^7 requests/ }).waitFor()
    assert.equal(await page.getByLabel('Why?').inputValue(), 'scrapes the sea')
    await page.getByRole('button', { name: 'Exempt from all limits' }).click()
    await page.getByRole('heading', { name: 'Exempt from all limits until' }).waitFor()
    assert.match(page.url(), /minutes=15/)
    assert.deepEqual(complaints, [])
  })

  test('without JavaScript the page reloads itself once staff ask for it', async (t) => {
    const { url, client, clock, request } = await start(t)
    const { page } = await openPage(t, { javaScriptEnabled: false })
    await page.goto(url)
    const follow = page.getByRole('link', { name: 'Follow: reload every 5 seconds' })
    // The report was read almost five seconds ago: the page reloads in a moment.
    await request(`${DASHBOARD}?days=7`)
    clock.advance(4_900)
    await follow.click()
    await logEvents(client, { ...OFFENDER, blocked: 3 })
    clock.advance(LATER_MS)

    await page.getByRole('group', { name: /^10 requests, 5 / }).waitFor()
    assert.equal(await page.getByLabel('Search everything').isVisible(), false)
    await page.getByRole('link', { name: 'Stop following' }).click()
    await follow.or(page.getByRole('link', { name: 'Follow live' })).waitFor()
  })
})
