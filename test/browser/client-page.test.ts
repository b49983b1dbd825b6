/** The actions of a client's page, in a browser without JavaScript. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { staffAccounts } from '../../src/dashboard.js'
import { findFaults, inChromium, openPage } from '../support/browser.js'
import { ACCOUNTS, DASHBOARD, PASSWORD, SECRET, startWithStaff } from '../support/staff-app.js'

const SCRAPER = '203.0.113.10'

/** Signs in, and opens the dashboard of an app with a scraper. */
async function start(t: TestContext) {
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
  const started = await startWithStaff(
    t,
    'sqlite',
    { staff },
    { useDynamicRules: true, middleware: { defaultRate: '4/h' } },
  )
  await started.statuses(6, '/search', { from: SCRAPER })
  const { page } = await openPage(t, { javaScriptEnabled: false })
  await page.goto(started.origin + DASHBOARD)
  await page.getByLabel('Name').fill('alice')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  return {
    ...started,
    page,
    /** Types into the search, which takes the keyboard alone. */
    async find(text: string) {
      await page.getByLabel('Search everything').fill(text)
      await Promise.all([page.waitForURL(/client\.html/), page.keyboard.press('Enter')])
    },
  }
}

inChromium(() => {
  test('a scraper is blocked for 2 hours, and the block is ended, by one click each', async (t) => {
    const { page, find, statuses } = await start(t)
    await find(SCRAPER)
    await page.getByRole('heading', { name: `ip:${SCRAPER}` }).waitFor()
    await page.getByRole('button', { name: 'Block' }).click()
    assert.equal(await page.getByRole('status').textContent(), 'Denied until 2026-01-15 14:00:00 UTC.')
    await page.getByRole('heading', { name: 'Denied until 2026-01-15 14:00:00 UTC' }).waitFor()
    assert.deepEqual(await statuses(2, '/search', { from: SCRAPER }), [403, 403])
    await page.reload()
    assert.equal(await page.getByRole('status').count(), 0)
    assert.equal(await page.getByRole('cell', { name: 'Denied' }).count(), 2)

    await page.getByRole('button', { name: 'End the block' }).click()
    assert.match((await page.getByRole('status').textContent()) ?? '', /It has ended/)
    assert.deepEqual(await statuses(1, '/search', { from: SCRAPER }), [429])
  })

  test('the forms of the actions have no fault under axe-core', async (t) => {
    const { page, find } = await start(t)
    await find(SCRAPER)
    const { page: withScripts } = await openPage(t, { storageState: await page.context().storageState() })
    await withScripts.goto(page.url())
    assert.deepEqual(await findFaults(withScripts), [])
    await withScripts.getByText('Actions for').click()
    assert.deepEqual(await findFaults(withScripts), [])
    await withScripts.getByRole('button', { name: 'Block', exact: true }).click()
    await withScripts.getByText('Actions for').click()
    assert.deepEqual(await findFaults(withScripts), [])
  })
})
