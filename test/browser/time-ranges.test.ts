/** A time is chosen by pointing at it: a bar, a part of the chart, or a form by keyboard alone. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { HOUR_MS } from '../../src/ground/time/clock.js'
import { findFaults, inChromium, openPage, widthOf } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const AT_MS = Date.UTC(2026, 0, 14, 14)
const CLIENT = 'ip:203.0.113.7'

async function start(t: TestContext) {
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  const { client } = started.app.smartRateLimit
  for (let hour = 0; hour < 24; hour++) {
    const atMs = NOW_MS - hour * HOUR_MS - HOUR_MS / 2
    await logEvents(client, { key: CLIENT, path: '/login', allowed: 3 + hour, blocked: hour % 5, atMs })
  }
  await logEvents(client, { key: CLIENT, path: '/login', blocked: 20, denied: 5, atMs: AT_MS + HOUR_MS / 4 })
  return { ...started, url: `${started.origin}${DASHBOARD}` }
}

function rangeOf(page: Page): (string | null)[] {
  const { searchParams } = new URL(page.url())
  return ['since', 'until'].map((name) => searchParams.get(name))
}

/** Where the chart is, on the screen. */
async function plotOf(page: Page) {
  const plot = page.locator('.chart .plot')
  await plot.scrollIntoViewIfNeeded()
  const box = await plot.boundingBox()
  assert.ok(box !== null)
  return box
}

/** Drags over a chart, from one share of its width to another. */
async function dragOver(page: Page, from: number, to: number): Promise<void> {
  const box = await plotOf(page)
  const y = box.y + box.height / 2
  await page.mouse.move(box.x + box.width * from, y)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * to, y, { steps: 5 })
  assert.equal(await page.locator('.dragged').count(), 1)
  await page.mouse.up()
}

inChromium(() => {
  test('a bar leads to its minutes, and back to the last 7 days', async (t) => {
    const { url } = await start(t)
    const { page, complaints } = await openPage(t)
    await page.goto(`${url}?since=2026-01-14T00:00Z&until=2026-01-15T00:00Z`)
    // What is above a bar is a part of it.
    await page
      .locator('.column-of-bars')
      .nth(14)
      .click({ position: { x: 3, y: 20 } })
    await page.waitForURL(/T14/)
    assert.deepEqual(rangeOf(page), ['2026-01-14T14:00Z', '2026-01-14T15:00Z'])
    assert.equal(await page.locator('.column-of-bars').count(), 60)
    await page.getByRole('link', { name: 'Later' }).click()
    await page.waitForURL(/T16/)
    assert.deepEqual(rangeOf(page), ['2026-01-14T15:00Z', '2026-01-14T16:00Z'])
    await page.getByRole('link', { name: 'Last 7 days' }).click()
    await page.getByText('in the last 7 days').first().waitFor()
    assert.deepEqual(complaints, [])
  })

  test('a drag over the chart chooses the bars that it touches, in both directions', async (t) => {
    const { url } = await start(t)
    const { page, complaints } = await openPage(t)
    for (const [from, to] of [
      [14.5 / 24, 16.5 / 24],
      [16.5 / 24, 14.5 / 24],
    ] as const) {
      await page.goto(`${url}?since=2026-01-14T00:00Z&until=2026-01-15T00:00Z&rule=`)
      await dragOver(page, from, to)
      await page.waitForURL(/T14/)
      assert.deepEqual(rangeOf(page), ['2026-01-14T14:00Z', '2026-01-14T17:00Z'])
    }
    await page.goto(`${url}client.html?client=${CLIENT}&since=2026-01-14T14:00Z&until=2026-01-14T15:00Z`)
    await dragOver(page, 10.5 / 60, 19.5 / 60)
    await page.waitForURL(/T14%3A10/)
    assert.deepEqual(rangeOf(page), ['2026-01-14T14:10Z', '2026-01-14T14:20Z'])
    assert.equal(new URL(page.url()).searchParams.get('client'), CLIENT)
    assert.deepEqual(complaints, [])
  })

  test('Escape ends a drag, and the chart stays', async (t) => {
    const { url } = await start(t)
    const { page } = await openPage(t)
    await page.goto(`${url}?days=1`)
    const box = await plotOf(page)
    await page.mouse.move(box.x + 50, box.y + 20)
    await page.mouse.down()
    await page.mouse.move(box.x + 200, box.y + 20, { steps: 3 })
    assert.equal(await page.locator('.dragged').count(), 1)
    await page.keyboard.press('Escape')
    assert.equal(await page.locator('.dragged').count(), 0)
    await page.mouse.move(box.x + 200, box.y - 100)
    await page.mouse.up()
    assert.equal(page.url(), `${url}?days=1`)
  })

  test('a time is typed by keyboard alone, and without JavaScript', async (t) => {
    const { url } = await start(t)
    for (const javaScriptEnabled of [true, false]) {
      const { page } = await openPage(t, { javaScriptEnabled })
      await page.goto(`${url}?days=30&method=GET`)
      await page.getByText('Choose a time').focus()
      await page.keyboard.press('Enter')
      await page.keyboard.press('Tab')
      await page.keyboard.type('14:00')
      await page.keyboard.press('Tab')
      await page.keyboard.type('15:00')
      await page.keyboard.press('Enter')
      await page.getByText('2026-01-14 14:00–15:00 UTC').first().waitFor()
      assert.deepEqual(rangeOf(page), ['14:00', '15:00'])
      assert.equal(new URL(page.url()).searchParams.get('method'), 'GET')
    }
  })

  test('the choice of a time moves nothing sideways, and axe finds nothing', async (t) => {
    const { url } = await start(t)
    const addresses = [
      '?since=2026-01-14T14:00Z&until=2026-01-14T15:00Z&only=refused',
      '?since=14.00&until=15:00',
      '?days=7&show=denied',
      `client.html?client=${CLIENT}&since=2026-01-14T14:00Z&until=2026-01-15T02:00Z&show=allowed`,
      `client.html?client=${CLIENT}&days=7&since=x`,
      'clients.html?since=2026-01-14T14:00Z',
      'search.html?q=login&since=2026-01-14T14:00Z',
      `offender.html?key=${CLIENT}&since=2026-01-14T14:00Z&until=2026-01-15T02:00Z`,
    ]
    for (const width of [390, 1280]) {
      const { page } = await openPage(t, { viewport: { width, height: 900 } })
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        for (const address of addresses) {
          await page.goto(url + address)
          if ((await page.locator('.time-form[open]').count()) === 0) await page.getByText('Choose a time').click()
          assert.ok((await widthOf(page)) <= width, `${address} at ${width}`)
          assert.deepEqual(await findFaults(page), [], `${address} at ${width}, ${colorScheme}`)
          const shots = process.env.SHOTS
          if (shots !== undefined) {
            const name = `${addresses.indexOf(address)}-${width}-${colorScheme}.png`
            await page.screenshot({ path: `${shots}/${name}`, fullPage: true })
          }
        }
      }
    }
  })
})
