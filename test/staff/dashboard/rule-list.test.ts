/** The list of rules: what is found in it, and what is done there. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { StaffRole } from '../../../src/staff/shell/roles.js'
import { forAnyDatabase, type Provider } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import type { Answer, RequestOptions } from '../../support/http-client.js'
import { long } from '../../support/long.js'
import { cookieOf, DASHBOARD } from '../../support/staff-app.js'
import { openForms, undoFields } from '../../support/staff-forms.js'

const BULK = 'rules-bulk'
const SWITCH = 'rule-switch'

/** Returns the names in the list, in their order. */
function listed({ text }: Answer): string[] {
  return [...text.matchAll(/<th scope="row" role="rowheader"><a [^>]*title="([^"]*)"/g)].map(([, name = '']) => name)
}

/** Returns the sentence that an action left. */
function noticeOf({ text }: Answer): string {
  return /<p class="notice (?:success|failure)" role="(?:status|alert)">([^<]*)/.exec(text)?.[1] ?? ''
}

/** An app with rules named `a` to `e`; the priority falls from one to the next. */
async function start(t: TestContext, provider: Provider, role: StaffRole = 'admin') {
  const forms = await openForms(t, provider, role)
  const { client } = forms.app.smartRateLimit
  const now = forms.clock.now()
  await client.rateLimitRule.createMany({
    data: [
      { name: 'a', pathPattern: '^/login', rate: '5/m', priority: 5, description: 'Sign-in 100%' },
      { name: 'b', pathPattern: '^/api/', rate: '100/h', priority: 4, isActive: false, method: 'POST' },
      { name: 'c', pathPattern: '^/api/', rate: '30/m', priority: 3, block: false, condition: "user.plan == 'free'" },
      { name: 'd', pathPattern: '^/sale', rate: '1/s, 10/m', priority: 2, startsAt: new Date(now + 1000) },
      { name: 'e', pathPattern: '^/old', rate: '2/d', priority: 1, endsAt: new Date(now - 1000) },
    ],
  })
  const ids = new Map((await client.rateLimitRule.findMany()).map(({ id, name }) => [name, String(id)]))
  const idOf = (name: string) => ids.get(name) ?? ''
  const isActive = async () =>
    (await client.rateLimitRule.findMany({ where: { isActive: true }, orderBy: { name: 'asc' } })).map(
      (row) => row.name,
    )
  return { ...forms, client, idOf, isActive, after: afterOf(forms.request) }
}

/** Follows actions to the pages that they lead to, with the cookies that they set. */
function afterOf(request: (path: string, options: RequestOptions) => Promise<Answer>) {
  return async function after({ status, headers }: Answer): Promise<Answer> {
    assert.equal(status, 303)
    return request(DASHBOARD + headers.location, { headers: { cookie: cookieOf(headers) } })
  }
}

forAnyDatabase((provider) => {
  test('what a bulk switched is switched back by Undo, and what was so before stays', async (t) => {
    const { submit, open, after, idOf, isActive } = await start(t, provider, 'operator')
    const ids = ['a', 'b', 'c'].map(idOf)
    const page = await after(await submit('rules.html', { do: 'disable', id: ids }, BULK))
    assert.deepEqual(await isActive(), ['d', 'e'])
    const undone = await (await open('rules.html')).submit(undoFields(page.text), {}, 'change-revert')
    const again = await after(undone)
    assert.equal(noticeOf(again), '2 changes were reverted.')
    assert.deepEqual(await isActive(), ['a', 'c', 'd', 'e'])
    await (await open('rules.html')).submit(undoFields(again.text), {}, 'change-revert')
    assert.deepEqual(await isActive(), ['d', 'e'])
  })

  test('rules that were deleted in bulk come back by Undo, pressed twice too', async (t) => {
    const { submit, open, after, idOf, isActive } = await start(t, provider)
    const page = await after(await submit('rules.html', { do: 'delete', id: ['a', 'b', 'c'].map(idOf) }, BULK))
    assert.deepEqual(await isActive(), ['d', 'e'])
    const rules = await open('rules.html')
    await rules.submit(undoFields(page.text), {}, 'change-revert')
    assert.deepEqual(await isActive(), ['a', 'c', 'd', 'e'])
    const twice = await rules.submit(undoFields(page.text), {}, 'change-revert')
    assert.match(noticeOf(await after(twice)), /cannot be reverted: there is a rule &quot;a&quot; again/)
    assert.deepEqual(await isActive(), ['a', 'c', 'd', 'e'])
  })

  test('a notice that another site wrote into the cookies undoes nothing that others did', async (t) => {
    const { submit, after, idOf, request, open, app } = await start(t, provider)
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: 'user:1', effect: 'deny' } })
    const other = await app.smartRateLimit.client.rateLimitChange.findFirstOrThrow({ where: { entity: 'override' } })
    const disabled = await submit('rules.html', { do: 'disable', id: [idOf('a')] }, BULK)
    const written = /ratelimit_staff_notice=([\w-]+)/
    const [, value = ''] = written.exec(cookieOf(disabled.headers)) ?? []
    const notice = JSON.parse(Buffer.from(value, 'base64url').toString())
    const forged = Buffer.from(JSON.stringify({ ...notice, undo: Number(other.id) }))
    const cookie = cookieOf(disabled.headers).replace(value, forged.toString('base64url'))
    const page = await request(`${DASHBOARD}rules.html`, { headers: { cookie } })
    assert.equal(noticeOf(page), 'The rule a was disabled.')
    const sent = await (await open('rules.html')).submit(undoFields(page.text), {}, 'change-revert')
    assert.equal(sent.status, 404)
    assert.equal(await app.smartRateLimit.client.rateLimitOverride.count(), 1)
    assert.match((await after(disabled)).text, />Undo</)
  })

  test('rules are found by a part of a name, note, pattern or condition, by state and by effect', async (t) => {
    const { get } = await start(t, provider)
    const cases: readonly (readonly [query: Record<string, string>, names: string])[] = [
      [{}, 'abcde'],
      [{ q: 'API' }, 'bc'],
      [{ q: 'sign-IN' }, 'a'],
      [{ q: '100%' }, 'a'],
      [{ q: '%' }, 'a'],
      [{ q: '_' }, ''],
      [{ q: '\\' }, ''],
      [{ q: "plan == 'free'" }, 'c'],
      [{ q: '\0\ud800' }, ''],
      [{ state: 'on' }, 'acde'],
      [{ state: 'off' }, 'b'],
      [{ state: 'in-force' }, 'ac'],
      [{ state: 'not-yet' }, 'd'],
      [{ state: 'over' }, 'e'],
      [{ effect: 'counts' }, 'c'],
      [{ effect: 'blocks' }, 'abde'],
      [{ q: 'api', state: 'on', effect: 'counts' }, 'c'],
      [{ state: 'constructor', effect: '__proto__', order: 'id; DROP' }, 'abcde'],
    ]
    for (const [query, names] of cases) {
      const page = await get(`rules.html?${new URLSearchParams(query)}`)
      assert.deepEqual([page.status, listed(page).join('')], [200, names], JSON.stringify(query))
    }
    const { text } = await get('rules.html?q=api')
    assert.match(text, /2 of 5 rules/)
    assert.match(text, /Disable all 2 found/)
    assert.doesNotMatch((await get('rules.html')).text, / found</)
  })

  test('groups have a column and a filter where there are any', async (t) => {
    const { client, get } = await start(t, provider)
    const without = await get('rules.html')
    assert.doesNotMatch(without.text, /name="group"|order=group|within their group/)
    await client.rateLimitRule.updateMany({ where: { name: { in: ['a', 'd'] } }, data: { group: 'team' } })
    await client.rateLimitRule.update({ where: { name: 'c' }, data: { group: 'org' } })
    const page = await get('rules.html')
    assert.match(page.text, /in the order in which they are tried within their group/)
    assert.equal(listed(page).join(''), 'abcde', 'by priority, then name, whatever the group')
    assert.deepEqual(
      [...page.text.matchAll(/<td role="cell" class="group"[^>]*><span class="code"><bdi>([^<]*)/g)].map(
        ([, name]) => name,
      ),
      ['team', '', 'org', 'team', ''],
    )
    const cases: readonly (readonly [query: string, names: string])[] = [
      ['group=team', 'ad'],
      ['group=UNNAMED', 'be'],
      ['group=team&state=in-force', 'a'],
      ['group=nobody', ''],
      ['group=%00', 'abcde'],
      ['order=-group', 'adcbe'],
    ]
    for (const [query, names] of cases) assert.equal(listed(await get(`rules.html?${query}`)).join(''), names, query)
    const { text } = await get('rules.html?group=team')
    assert.match(text, /2 of 5 rules/)
    assert.match(text, /<option value="team" selected>/)
    assert.match(text, /<input type="hidden" name="group" value="team">/)
  })

  test('each column orders the list, and its heading says how', async (t) => {
    const { get, clock, database } = await start(t, provider)
    const events = ['c', 'c', 'c', 'e', 'e'].map((ruleName, number) => ({
      timestampMs: clock.now() - 60_000,
      ruleName,
      policy: ruleName,
      key: `rule:${ruleName}:x`,
      ...(ruleName === 'e' && number > 0 && { allowed: false, count: 3, limit: 2, outcome: 'over_limit' as const }),
    }))
    await logRows(database, events)
    const orders = {
      name: 'abcde',
      '-name': 'edcba',
      pathPattern: 'bcaed',
      rate: 'ebadc',
      '-rate': 'cdabe',
      priority: 'edcba',
      '-priority': 'abcde',
      isActive: 'bacde',
      '-matched': 'ceabd',
      '-refused': 'eabcd',
    }
    for (const [order, names] of Object.entries(orders)) {
      const page = await get(`rules.html?order=${order}`)
      assert.equal(listed(page).join(''), names, order)
      assert.match(page.text, order.startsWith('-') ? /aria-sort="descending"/ : /aria-sort="ascending"/)
    }
  })

  test('ticked rules are enabled, disabled and deleted at once, with a sentence that says which', async (t) => {
    const { submit, after, idOf, isActive, client } = await start(t, provider)
    const disabled = await after(await submit('rules.html', { do: 'disable', id: ['a', 'b', 'c'].map(idOf) }, BULK))
    assert.equal(noticeOf(disabled), '2 rules were disabled: a, c. 1 rule was disabled before.')
    assert.deepEqual(await isActive(), ['d', 'e'])
    const enabled = await after(await submit('rules.html', { do: 'enable', id: [idOf('b'), '999999'] }, BULK))
    assert.equal(noticeOf(enabled), 'The rule b was enabled. 1 rule was deleted before.')
    const deleted = await after(await submit('rules.html', { do: 'delete', id: [idOf('d'), idOf('e')] }, BULK))
    assert.equal(noticeOf(deleted), '2 rules were deleted: d, e.')
    assert.deepEqual(listed(deleted), ['a', 'b', 'c'])
    const changes = await client.rateLimitChange.findMany({ where: { actor: 'alice', source: 'dashboard' } })
    assert.deepEqual(changes.map(({ action, name }) => `${action} ${name}`).sort(), [
      'delete d',
      'delete e',
      'update a',
      'update b',
      'update c',
    ])
    for (const fields of [{ do: 'disable' }, { do: 'disable', id: 'x' }, { do: 'destroy', id: idOf('a') }, {}]) {
      const nothing = await after(await submit('rules.html', fields, BULK))
      assert.equal(noticeOf(nothing), 'Nothing was changed: tick rules first.')
    }
    const gone = await after(await submit('rules.html', { do: 'disable', id: ['9999999999'] }, BULK))
    assert.equal(noticeOf(gone), 'Nothing was changed: the rules no longer exist.')
  })

  test('all rules that a search found are disabled by one button, unless others are found by now', async (t) => {
    const { submit, after, isActive, client } = await start(t, provider)
    await client.rateLimitRule.createMany({
      data: Array.from({ length: 10 }, (_, number) => ({ name: `sale-${number}`, pathPattern: '^/', rate: '1/s' })),
    })
    const sent = { do: 'disable-found', q: 'sale-', found: '10' }
    const stale = await after(await submit('rules.html', { ...sent, found: '9' }, BULK))
    assert.equal(noticeOf(stale), 'Nothing was changed: the list now has 10 rules, not 9. Check the list again.')
    const disabled = await after(await submit('rules.html', sent, BULK))
    assert.equal(noticeOf(disabled), '10 rules were disabled: sale-0, sale-1, sale-2, sale-3, sale-4 and 5 more.')
    assert.equal(listed(disabled).length, 10, 'the search is kept')
    assert.deepEqual(await isActive(), ['a', 'c', 'd', 'e'])
  })

  test('a rule is switched in its row, and obeyed by the very next request', async (t) => {
    const { submit, after, idOf, request, isActive } = await start(t, provider)
    const limit = async () => (await request('/api/x', { method: 'POST' })).headers['x-ratelimit-limit']
    assert.equal(await limit(), '2')
    const on = await after(await submit('rules.html?q=api', { on: idOf('b'), q: 'api' }, SWITCH))
    assert.equal(noticeOf(on), 'The rule b was enabled.')
    assert.deepEqual(listed(on), ['b', 'c'])
    assert.equal(await limit(), '100')
    await submit('rules.html', { off: idOf('b') }, SWITCH)
    assert.equal(await limit(), '2')
    assert.deepEqual(await isActive(), ['a', 'c', 'd', 'e'])
  })

  test('priorities are changed in the list; a wrong one, or one that another changed meanwhile, changes none', async (t) => {
    const { submit, open, after, idOf, client, get } = await start(t, provider)
    const field = (name: string, priority: string, was: string) => ({
      [`priority-${idOf(name)}`]: priority,
      [`was-${idOf(name)}`]: was,
    })
    const form = { ...field('a', ' 50 ', '5'), ...field('b', '4', '4'), ...field('c', '-3', '3') }
    const saved = await after(await submit('rules.html', { ...form, do: 'priorities' }, SWITCH))
    assert.equal(noticeOf(saved), 'Priorities changed: a from 5 to 50, c from 3 to -3.')
    assert.deepEqual(listed(saved), ['a', 'b', 'd', 'e', 'c'])

    const wrong = await submit('rules.html', { ...field('a', 'high', '50'), ...field('b', '9', '4') }, SWITCH)
    assert.equal(wrong.status, 400)
    assert.match(wrong.text, /value="high"[^>]* aria-invalid="true"/)
    assert.match(wrong.text, new RegExp(`name="priority-${idOf('b')}" value="9"`))
    assert.match(wrong.text, />It must be an integer between -2147483647 and 2147483647\.</)
    const names = async () =>
      Object.fromEntries((await client.rateLimitRule.findMany()).map(({ name, priority }) => [name, priority]))
    assert.deepEqual(await names(), { a: 50, b: 4, c: -3, d: 2, e: 1 })

    const [one, two] = [await open('rules.html'), await open('rules.html')]
    assert.equal((await one.submit(field('d', '20', '2'), {}, SWITCH)).status, 303)
    const late = await two.submit({ ...field('d', '30', '2'), ...field('e', '31', '1') }, {}, SWITCH)
    assert.equal(late.status, 400)
    assert.match(late.text, /It was changed to 20 in the meantime: save again to replace that\./)
    assert.deepEqual(await names(), { a: 50, b: 4, c: -3, d: 20, e: 1 })
    assert.equal((await two.submit({ ...field('d', '30', '20') }, {}, SWITCH)).status, 303)
    assert.equal((await names()).d, 30)
    assert.equal(
      noticeOf(await after(await submit('rules.html', {}, SWITCH))),
      'Nothing was changed: no priority differs.',
    )
    assert.doesNotMatch((await get('rules.html')).text, /aria-invalid/)
  })

  test('operators switch rules and do no more', async (t) => {
    const { open, after, idOf, isActive, get } = await start(t, provider, 'operator')
    const list = await open('rules.html?q=api')
    const switched = await after(await list.submit({ off: idOf('a') }, {}, SWITCH))
    assert.equal(noticeOf(switched), 'The rule a was disabled.')
    for (const [fields, action] of [
      [{ do: 'delete', id: idOf('a') }, BULK],
      [{ do: 'delete-found', q: 'api', found: '2' }, BULK],
      [{ [`priority-${idOf('a')}`]: '9', [`was-${idOf('a')}`]: '5' }, SWITCH],
      [{ name: 'x', pathPattern: '^/', rate: '1/m' }, 'rule.html'],
      [{ id: idOf('a'), do: 'delete' }, 'rule.html'],
    ] as const) {
      assert.equal((await list.submit(fields, {}, action)).status, 403, JSON.stringify(fields))
    }
    assert.deepEqual(await isActive(), ['c', 'd', 'e'])
    const page = await open(`rule.html?named=a`)
    const back = await after(await page.submit({ on: idOf('a'), from: 'rule' }, {}, SWITCH))
    assert.equal(noticeOf(back), 'The rule a was enabled.')
    assert.match(back.text, /<button name="off"/)
    assert.equal((await get('rules.html?tick=all')).text.match(/ checked>/g)?.length, 5)
  })

  test('forms of another site, or without their token, change nothing', async (t) => {
    const { open, isActive, idOf } = await start(t, provider)
    const list = await open('rules.html')
    for (const [action, fields] of [
      [BULK, { do: 'disable', id: idOf('a') }],
      [SWITCH, { off: idOf('a') }],
    ] as const) {
      assert.equal((await list.submit(fields, { 'sec-fetch-site': 'cross-site' }, action)).status, 403)
      assert.equal((await list.submit(fields, { 'sec-fetch-site': '', origin: 'http://evil' }, action)).status, 403)
      assert.equal((await list.submit({ ...fields, token: 'forged' }, {}, action)).status, 403)
    }
    assert.deepEqual(await isActive(), ['a', 'c', 'd', 'e'])
  })

  test('of two operators who disable and enable the same rules at once each bulk is whole', async (t) => {
    const { open, client } = await start(t, provider)
    await client.rateLimitRule.createMany({
      data: Array.from({ length: 50 }, (_, number) => ({ name: `sale-${number}`, pathPattern: '^/', rate: '1/s' })),
    })
    const [one, two] = [await open('rules.html'), await open('rules.html')]
    const fields = { q: 'sale-', found: '50' }
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all([
        one.submit({ ...fields, do: 'disable-found' }, {}, BULK),
        two.submit({ ...fields, do: 'enable-found' }, {}, BULK),
      ])
      assert.deepEqual(
        answers.map(({ status }) => status),
        [303, 303],
      )
      const active = await client.rateLimitRule.count({ where: { isActive: true, name: { startsWith: 'sale-' } } })
      assert.ok([0, 50].includes(active), `${active}`)
    }
  })

  test('ten thousand rules are searched, ordered and switched together', long(), async (t) => {
    const { app, get, submit, request } = await openForms(t, provider)
    const after = afterOf(request)
    const { client } = app.smartRateLimit
    const rules = Array.from({ length: 10_000 }, (_, number) => ({
      name: `rule-${String(number).padStart(5, '0')}`,
      pathPattern: `^/p${number}/`,
      rate: `${number % 97}/m`,
    }))
    await app.smartRateLimit.rules.import({ version: 1, rules })
    assert.equal(listed(await get('rules.html')).length, 200)
    assert.deepEqual(listed(await get('rules.html?q=P9999')), ['rule-09999'])
    assert.deepEqual(listed(await get('rules.html?order=-rate&page=50')).at(-1), 'rule-09991')
    const found = await after(await submit('rules.html', { do: 'disable-found', q: 'rule', found: '10000' }, BULK))
    assert.match(noticeOf(found), /^10,000 rules were disabled: /)
    assert.equal(await client.rateLimitRule.count({ where: { isActive: true } }), 0)
  })
})

test('hostile names and values that raw SQL wrote are shown as texts', async (t) => {
  const { database, get } = await openForms(t, 'sqlite')
  const hostile = `"><script>alert(1)</script>\u202e${'x'.repeat(300)}`
  await database.execute(
    `INSERT INTO ${database.dialect.table('rate_limit_rule')} (name, path_pattern, rate, description, updated_at)
     VALUES ($1, 17, 4.5, '', ${database.dialect.fromMs('0')})`,
    [hostile],
  )
  for (const page of ['rules.html', 'rules.html?order=rate', 'rules.html?q=script', 'rule.html?id=1']) {
    const { status, text } = await get(page)
    assert.equal(status, 200, page)
    assert.doesNotMatch(text, /<script>/)
    // Fields hold what is stored, which they send back.
    assert.doesNotMatch(text.replace(/value="[^"]*"/g, ''), /\u202e/)
  }
})
