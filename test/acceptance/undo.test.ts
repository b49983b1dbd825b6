/** Every action of the staff pages that changes rules or overrides can be undone from its notice, and later from the changes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { act, openClient } from '../support/client-forms.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { openForms, undoFields } from '../support/staff-forms.js'

const REVERT = 'change-revert'
const RULE = { pathPattern: '^/login', rate: '5/m' }

forEachDatabase((provider) => {
  test('a block from the page of a client is undone there', async (t) => {
    const { request, open, follow, app } = await openForms(t, provider, 'operator')
    const { rateLimitOverride } = app.smartRateLimit.client
    const blocked = await act(request, await openClient(request, 'user:7'), 'block', { for: '1h' })
    assert.equal(await rateLimitOverride.count(), 1)
    const page = await follow(blocked)
    const undone = await (await open('changes.html')).submit(undoFields(page.text), {}, REVERT)
    assert.match(String(undone.headers.location), /^client\.html\?client=user%3A7/)
    assert.equal(await rateLimitOverride.count(), 0)
    assert.match((await follow(undone)).text, /The block of user:7 has ended\./)
  })

  test('a rule that was saved, changed or deleted by its form is undone', async (t) => {
    const { submit, open, follow, app } = await openForms(t, provider)
    const { rateLimitRule } = app.smartRateLimit.client
    const undo = async (answer: Awaited<ReturnType<typeof submit>>) =>
      (await open('changes.html')).submit(undoFields((await follow(answer)).text), {}, REVERT)
    await undo(await submit('rule.html', { name: 'login', ...RULE }))
    assert.equal(await rateLimitRule.count(), 0)
    await submit('rule.html', { name: 'login', ...RULE })
    const { id } = await rateLimitRule.findFirstOrThrow()
    await undo(await submit(`rule.html?id=${id}`, { rate: '9/m' }))
    assert.equal((await rateLimitRule.findFirstOrThrow()).rate, '5/m')
    await undo(await submit(`rule.html?id=${id}`, { do: 'delete' }))
    assert.equal((await rateLimitRule.findFirstOrThrow()).rate, '5/m')
  })

  test('an import is undone as a whole, and the changes show it as one action', async (t) => {
    const { open, get, follow, app } = await openForms(t, provider)
    const { client, rules } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { name: 'login', ...RULE } })
    const before = await rules.export()
    const document = JSON.stringify({ version: 1, rules: ['a', 'b', 'c'].map((name) => ({ name, ...RULE })) })
    const page = await open('exchange.html')
    const compared = await page.submit({ document })
    const [, version = ''] = /name="version" value="([^"]*)"/.exec(compared.text) ?? []
    const imported = await follow(await page.submit({ document, do: 'import', version }))
    const changes = await get('changes.html')
    assert.deepEqual(changes.text.match(/>Revert[^<]*</g), ['>Revert all 4<'])
    await (await open('changes.html')).submit(undoFields(imported.text), {}, REVERT)
    assert.deepEqual((await rules.export()).rules, before.rules)
  })

  test('switching a rule off says what it did, and an operator undoes it', async (t) => {
    const { open, follow, app, clock, database } = await openForms(t, provider, 'operator', {
      useDynamicRules: true,
      logEvents: true,
    })
    const { rateLimitRule } = app.smartRateLimit.client
    const { id } = await rateLimitRule.create({ data: { name: 'login', ...RULE } })
    await logRows(
      database,
      Array.from({ length: 3 }, () => ({ timestampMs: clock.now() - 60_000, ruleName: 'login' })),
    )
    const page = await follow(await (await open('rules.html')).submit({ off: String(id) }, {}, 'rule-switch'))
    assert.match(page.text, /The rule login was disabled\. It matched 3 requests in the last day\./)
    await (await open('rules.html')).submit(undoFields(page.text), {}, REVERT)
    assert.equal((await rateLimitRule.findFirstOrThrow()).isActive, true)
  })
})
