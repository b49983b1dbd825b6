/** The page that imports and exports, in a browser: a chosen file is compared, then imported. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { findFaults, inChromium, openPage, widthOf } from '../support/browser.js'
import { forEachDatabase } from '../support/databases.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const LONG = `long-${'x'.repeat(90)}`
const DOCUMENT = JSON.stringify(
  {
    version: 1,
    rules: [
      { name: 'login', pathPattern: '^/login', rate: '10/m', startsAt: '2026-02-01T00:00:00Z' },
      { name: LONG, pathPattern: `^/${LONG}`, rate: '7/m' },
    ],
    overrides: [{ client: 'ip:203.0.113.7', effect: 'deny', pathPattern: '^/api' }],
  },
  null,
  2,
)

async function check(page: Page, state: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    for (const width of [390, 768, 1280]) {
      await page.setViewportSize({ width, height: 844 })
      assert.ok((await widthOf(page)) <= width, `${state} scrolls sideways at ${width} px`)
      assert.deepEqual(await findFaults(page), [], `${state} at ${width} px, ${colorScheme}`)
      if (process.env.LOOK)
        await page.screenshot({ path: `${process.env.LOOK}/${state}-${width}-${colorScheme}.png`, fullPage: true })
    }
  }
}

inChromium(() => {
  forEachDatabase((provider) => {
    test('a chosen file stands in the field, is compared by one click and imported by another', async (t) => {
      const { origin, app } = await startWithStaff(
        t,
        provider,
        { isStaff: () => ({ actor: 'alice', role: 'admin' }) },
        { useDynamicRules: true },
      )
      const { client, rules } = app.smartRateLimit
      await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '5/m' } })
      await client.rateLimitRule.create({ data: { name: 'old', pathPattern: '^/old', rate: '5/m' } })
      const { page, complaints } = await openPage(t)
      await page.goto(origin + DASHBOARD)
      await page.getByRole('link', { name: 'Import and export' }).click()
      await check(page, 'empty')
      const choose = (text: string) =>
        page
          .getByLabel('File')
          .setInputFiles({ name: 'r.json', mimeType: 'application/json', buffer: Buffer.from(text) })
      const compare = () => page.getByRole('button', { name: 'Show what would change' }).click()

      await choose(DOCUMENT.replace('10/m', 'often'))
      await compare()
      await page.getByText(/rules\[0\]\.rate/).waitFor()
      await check(page, 'wrong')

      await choose(DOCUMENT)
      // The page reads a file in its own time.
      await page.waitForFunction(`document.getElementById('document').value === ${JSON.stringify(DOCUMENT)}`)
      await compare()
      await page.getByText('2 created, 1 changed, 1 deleted, 0 unchanged.').waitFor()
      await check(page, 'difference')
      await page.getByRole('button', { name: 'Import this' }).click()
      await page.getByText('Imported: 2 created, 1 changed, 1 deleted, 0 unchanged.').waitFor()
      await check(page, 'imported')
      assert.deepEqual((await rules.export()).rules.map(({ name }) => name).toSorted(), ['login', LONG])

      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download the document' }).click(),
      ])
      assert.equal(download.suggestedFilename(), 'ratelimit-rules.json')
      assert.deepEqual(
        complaints.filter((text) => !/status of 400/.test(text)),
        [],
      )
    })
  })
  test('without JavaScript there is no chooser, and a pasted document is imported', async (t) => {
    const { origin, app } = await startWithStaff(t, 'sqlite', { isStaff: () => ({ actor: 'alice', role: 'admin' }) })
    const { page } = await openPage(t, { javaScriptEnabled: false })
    await page.goto(`${origin}${DASHBOARD}exchange.html`)
    assert.equal(await page.getByLabel('File').isVisible(), false)
    // Browsers send its line breaks as two characters, and hand them back as one.
    await page.getByLabel('Document', { exact: true }).fill(`\n\n${DOCUMENT}`)
    await page.getByRole('button', { name: 'Show what would change' }).click()
    await page.getByRole('button', { name: 'Import this' }).click()
    await page.getByText(/^Imported: 3 created/).waitFor()
    assert.equal((await app.smartRateLimit.rules.export()).rules.length, 2)
  })
})
