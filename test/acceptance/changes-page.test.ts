/** The page of changes: who did what, and back. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openForms } from '../support/staff-forms.js'

const RULE = { name: 'login', pathPattern: '^/login', rate: '5/m' }

test('Revert undoes a change, and the page says so', async (t) => {
  const { get, open, submit, revert } = await openChanges(t)
  await submit('rule.html', RULE)
  await (await open('rule.html?named=login')).submit({ rate: '10/m' })
  const reverted = await revert('rate')
  assert.deepEqual([reverted.status, reverted.headers.location], [303, 'changes.html'])
  assert.match((await get('rule.html?named=login')).text, /name="rate" value="5\/m"/)
})

test('a change whose values are gone is not reverted, and the notice says why', async (t) => {
  const { open, submit, revert, follow } = await openChanges(t)
  await submit('rule.html', RULE)
  await (await open('rule.html?named=login')).submit({ rate: '10/m' })
  await (await open('rule.html?named=login')).submit({ rate: '11/m' })
  const page = await open('changes.html')
  const items = page.text.split('<li id="change-').slice(1)
  assert.deepEqual(
    items.map((item) => [/· <b>([^<]*)<\/b>/.exec(item)?.[1], />(Revert[^<]*)<\/button>/.exec(item)?.[1]]),
    [
      ['in force', 'Revert: rate back to 10/m'],
      ['changed again since', undefined],
      ['changed again since', undefined],
    ],
  )
  // A page that was loaded before has the button still.
  const refused = await revert('from 5/m to 10/m')
  assert.equal(refused.status, 303)
  assert.match((await follow(refused)).text, /role="alert">Change \d+ of rule &quot;login&quot; cannot be reverted/)
  assert.match((await open('rule.html?named=login')).text, /name="rate" value="11\/m"/)
})

test('each change says what became of it, and Revert what it does, before and after', async (t) => {
  const { app, clock, submit, revert, follow, open, database } = await openChanges(t)
  const { rateLimitOverride, rateLimitRule } = app.smartRateLimit.client
  const shown = async () => {
    const { text } = await open('changes.html')
    const items = text.split('<li id="change-').slice(1)
    return items.map((item) => [
      /<\/b> <bdi>(.*?)<\/bdi>/.exec(item)?.[1]?.replace(/<[^>]*>/g, ''),
      /· <b>(.*?)<\/b>/.exec(item)?.[1]?.replace(/<[^>]*>/g, ''),
      />(Revert[^<]*)<\/button>/.exec(item)?.[1],
    ])
  }
  const expiresAt = new Date(clock.now() + 3_600_000)
  const until = `${expiresAt.toISOString().slice(0, 19).replace('T', ' ')} UTC`
  await rateLimitOverride.create({ data: { client: 'ip:203.0.113.7', effect: 'deny', expiresAt } })
  await submit('rule.html', RULE)
  assert.deepEqual(await shown(), [
    ['created rule login with path pattern ^/login and rate 5/m', 'in force', 'Revert: deletes the rule'],
    [`denied ip:203.0.113.7 until ${until}`, `in force until ${until}`, 'Revert: ends the block'],
  ])
  clock.advance(2 * 3_600_000)
  assert.equal((await shown())[1]?.[1], 'ended')

  assert.match((await follow(await revert('created rule'))).text, /The rule login was deleted\./)
  assert.deepEqual((await shown()).slice(0, 2), [
    ['deleted rule login with path pattern ^/login and rate 5/m', undefined, 'Revert: restores the rule'],
    ['created rule login with path pattern ^/login and rate 5/m', 'deleted since', undefined],
  ])
  assert.match((await follow(await revert('deleted rule'))).text, /The rule login was restored\./)
  assert.equal(await rateLimitRule.count(), 1)
  assert.deepEqual((await shown()).slice(0, 3), [
    ['created rule login with path pattern ^/login and rate 5/m', 'in force', 'Revert: deletes the rule'],
    ['deleted rule login with path pattern ^/login and rate 5/m', 'created again since', undefined],
    ['created rule login with path pattern ^/login and rate 5/m', 'in force', 'Revert: deletes the rule'],
  ])

  const { dialect } = database
  await database.execute(`DELETE FROM ${dialect.table('rate_limit_override')} WHERE client <> ''`, [])
  assert.match(
    (await open('changes.html')).text,
    /<b><bdi>SQL<\/bdi><\/b> <bdi>ended the block of ip:203\.0\.113\.7<\/bdi>/,
  )
})

test('a filter finds the changes of a rule under its former name, those of an actor, and those of a range', async (t) => {
  const { get, open, submit } = await openForms(t, 'sqlite')
  await submit('rule.html', RULE)
  await submit('rule.html', { ...RULE, name: 'search' })
  await (await open('rule.html?named=login')).submit({ name: 'sign-in' })
  const found = async (query: string) =>
    [...(await get(`changes.html?${query}`)).text.matchAll(/<li id="change-/g)].length
  assert.equal(await found('entity=rule&name=sign-in'), 2)
  assert.equal(await found('actor=alice'), 3)
  assert.equal(await found('actor=bob'), 0)
  const today = new Date(Date.now() - 60_000).toISOString().slice(0, 16).replace('T', ' ')
  assert.equal(await found(new URLSearchParams({ since: today }).toString()), 3)
  assert.equal(await found(new URLSearchParams({ until: today }).toString()), 0)
  assert.match((await get('changes.html?since=yesterdayish')).text, /is not a valid moment\. Write it as/)
})

test('hostile filters answer with a page', async (t) => {
  const { get } = await openForms(t, 'sqlite')
  for (const query of [
    'name=%00',
    'before=99999999999999999999',
    'since=9999-99-99',
    'entity=__proto__',
    'source=%FF',
  ]) {
    assert.equal((await get(`changes.html?${query}`)).status, 200, query)
  }
})

test('viewers may revert no change; operators revert those of overrides only', async (t) => {
  const viewer = await openForms(t, 'sqlite', 'viewer')
  const { rateLimitRule, rateLimitOverride } = viewer.app.smartRateLimit.client
  await rateLimitRule.create({ data: RULE })
  await rateLimitOverride.create({ data: { client: 'ip:203.0.113.7', effect: 'deny' } })
  assert.equal((await (await viewer.open('changes.html')).submit({ id: '1' }, {}, 'change-revert')).status, 403)

  const operator = await openForms(t, 'sqlite', 'operator')
  const client = operator.app.smartRateLimit.client
  await client.rateLimitRule.create({ data: RULE })
  await client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.7', effect: 'deny' } })
  const page = await operator.open('changes.html')
  const [override, rule] = [...page.text.matchAll(/<li id="change-(\d+)"/g)].map(([, id = '']) => id)
  assert.equal((await page.submit({ id: rule ?? '' }, {}, 'change-revert')).status, 403)
  assert.equal((await page.submit({ id: override ?? '' }, {}, 'change-revert')).status, 303)
})

async function openChanges(t: TestContext) {
  const started = await openForms(t, 'sqlite')
  const { open } = started
  return {
    ...started,
    /** Presses the button of the change whose sentence has some words. */
    async revert(words: string) {
      const page = await open('changes.html')
      const items = page.text.split('<li id="change-').slice(1)
      const [id = ''] = items.find((item) => item.includes(words))?.split('"') ?? []
      return page.submit({ id }, {}, 'change-revert')
    },
  }
}
