/** Where the links of alerts lead in a browser. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inChromium, openPage } from '../support/browser.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, PASSWORD, startWithStaff } from '../support/staff-app.js'
import { startWebhookReceiver } from '../support/webhook-receiver.js'

inChromium(() => {
  test('the link of an alert shows its incident after the sign-in, and to who is signed in, however many there are', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const { app, clock, origin } = await startWithStaff(t, 'sqlite', undefined, {
      alertWebhook: receiver.url,
      publicUrl: `https://example.com${DASHBOARD}`,
    })
    const { client, analytics } = app.smartRateLimit
    for (let user = 1; user <= 7; user++) {
      await logEvents(client, { key: `user:${user}`, blocked: 100 - user, atMs: clock.now() })
    }
    await analytics.sendIncidentAlerts()
    const last = receiver.posts.map(({ body }) => JSON.parse(body).incident).find(({ scope }) => scope === 'user:7')
    const link = String(last?.url).replace('https://example.com', origin)
    const { page } = await openPage(t)
    const incident = page.locator('.incidents li:target')

    await page.goto(link)
    await page.getByLabel('Name').fill('alice')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await incident.getByRole('link', { name: 'user:7' }).first().waitFor()

    await page.goto('about:blank')
    await page.goto(link)
    await incident.getByRole('link', { name: 'user:7' }).first().waitFor()
    assert.equal(new URL(page.url()).hash, `#incident-${last?.id}`)
  })
})
