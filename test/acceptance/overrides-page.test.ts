/** The list of overrides and bans on the staff pages, and their form, as a browser without JavaScript uses them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { forAnyDatabase } from '../support/databases.js'
import { openForms, undoFields } from '../support/staff-forms.js'

const HOUR_MS = 3_600_000

/** Returns the clients that a page lists, in their order. */
function listed(html: string): string[] {
  return [...html.matchAll(/<a class="code" href="override\.html\?id&#x3D;\d+" title="([^"]*)"/g)].map(
    ([, client = '']) => client,
  )
}

/** Returns the values of the boxes of a page. */
function boxes(html: string): string[] {
  return [...html.matchAll(/name="seen" value="([^"]+)"/g)].map(([, value = '']) => value)
}

forAnyDatabase((provider) => {
  test('an override is written as people type it', async (t) => {
    const { submit, clock, app } = await openForms(t, provider, 'operator')
    const saved = await submit('override.html', {
      client: '10.0.0.0/8',
      effect: 'Block',
      expiresAt: '2h',
      note: 'a bot',
    })
    assert.deepEqual([saved.status, saved.headers.location], [303, 'overrides.html'])
    const row = await app.smartRateLimit.client.rateLimitOverride.findFirstOrThrow()
    assert.deepEqual(
      [row.client, row.effect, row.expiresAt?.getTime()],
      ['ip:10.0.0.0/8', 'deny', clock.now() + 2 * HOUR_MS],
    )
  })

  test('an override that denies everybody is asked about first, and saved by the second button', async (t) => {
    const { open, submit, app } = await openForms(t, provider, 'operator')
    const { rateLimitOverride } = app.smartRateLimit.client
    for (const [fields, question, value] of [
      [{ client: '0.0.0.0/0', effect: 'block' }, 'This denies every IPv4 client.', 'ip:0.0.0.0/0'],
      [{ client: '::/0', effect: 'Deny' }, 'This denies every IPv6 client.', 'ip:::/0'],
      [
        { client: 'ip:0.0.0.0/0', effect: '100/m, 0/d', pathPattern: '^/api' },
        'This denies every IPv4 client where the path matches ^/api.',
        'ip:0.0.0.0/0',
      ],
    ] as const) {
      const form = await open('override.html')
      const asked = await form.submit({ ...fields, note: 'an attack' })
      assert.equal(asked.status, 400)
      assert.ok(asked.text.includes(`<b>${question}</b>`), question)
      assert.match(asked.text, />an attack<\/textarea>/)
      assert.equal(await rateLimitOverride.count(), 0)
      const [, button = ''] = /name="confirmed" value="([^"]*)">Deny every IPv/.exec(asked.text) ?? []
      assert.equal(button, value)
      // Another answer than that to this question is none.
      assert.equal((await form.submit({ ...fields, confirmed: 'ip:10.0.0.0/8' })).status, 400)
      assert.equal((await form.submit({ ...fields, confirmed: button })).status, 303)
      await rateLimitOverride.deleteMany()
    }
    for (const fields of [
      { client: '0.0.0.0/0', effect: 'allow' },
      { client: '::/0', effect: '5/m' },
      { client: '10.0.0.0/8', effect: 'deny' },
    ]) {
      assert.equal((await submit('override.html', fields)).status, 303)
    }
    const wrong = await submit('override.html', { client: '0.0.0.0/0', effect: 'deny', expiresAt: 'soon' })
    assert.match(wrong.text, /id="error-expiresAt"/)
    assert.doesNotMatch(wrong.text, /name="confirmed"/)
  })

  test('the notice has the client as it is stored', async (t) => {
    const { submit, follow } = await openForms(t, provider, 'operator')
    const saved = await submit('override.html', { client: '2001:DB8:0::1', effect: 'block' })
    assert.match((await follow(saved)).text, /The override ip:2001:db8::1 was created\./)
    const deleted = await submit('override.html?named=ip:2001:db8::1', { client: 'user:9', do: 'delete' })
    assert.match((await follow(deleted)).text, /The override ip:2001:db8::1 was deleted\./)
  })

  test('a wrong effect is refused at the field, with how to write it', async (t) => {
    const { submit } = await openForms(t, provider)
    const refused = await submit('override.html', { client: '203.0.113.7', effect: '5 per minute' })
    assert.equal(refused.status, 400)
    assert.match(refused.text, /id="error-effect">Write it as 5\/m\.</)
    assert.equal(refused.text.match(/aria-invalid/g)?.length, 1)
    const second = await submit('override.html', { client: '203.0.113.7/24', effect: 'ban' })
    assert.match(second.text, /id="error-effect">Write it as block\.</)
    assert.match(second.text, /id="error-client">[^<]*203\.0\.113\.0\/24/)
  })

  test('of one client and path pattern there is one override, in whatever spelling', async (t) => {
    const { submit } = await openForms(t, provider)
    assert.equal((await submit('override.html', { client: '2001:DB8::1', effect: '5/m' })).status, 303)
    const refused = await submit('override.html', { client: 'ip:2001:db8:0::1', effect: 'exempt' })
    assert.equal(refused.status, 400)
    assert.match(refused.text, /Another override already has this client and path pattern/i)
  })

  test('a search finds a client in every spelling with the networks around it, patterns and notes', async (t) => {
    const { get, submit } = await openForms(t, provider)
    const write = (client: string, fields = {}) => submit('override.html', { client, effect: 'deny', ...fields })
    await write('203.0.113.7', { pathPattern: '^/Login' })
    await write('203.0.113.0/24', { effect: '100/m' })
    await write('user:42', { note: 'Über 100% of_the load' })
    const search = async (text: string, further = '') =>
      listed((await get(`overrides.html?q=${encodeURIComponent(text)}${further}`)).text)
    const both = ['ip:203.0.113.0/24', 'ip:203.0.113.7']
    for (const spelling of ['203.0.113.7', 'ip:203.0.113.7', '::ffff:203.0.113.7', ' 203.0.113.7 ']) {
      assert.deepEqual(await search(spelling), both, spelling)
    }
    assert.deepEqual(await search('^/login'), ['ip:203.0.113.7'])
    for (const part of ['Über', '100%', 'of_THE', 'user:4']) assert.deepEqual(await search(part), ['user:42'], part)
    for (const part of ['of.the', '%load', 'nobody', '\0'])
      assert.deepEqual(await search(part), part === '\0' ? ['user:42', ...both] : [], part)
    assert.deepEqual(await search('203.0.113.7', '&kind=rates'), ['ip:203.0.113.0/24'])
    assert.match((await get('overrides.html?q=nobody')).text, /No override matches this filter/)
  })

  test('the list is filtered by what overrides do, and whether they are over', async (t) => {
    const { get, submit, clock, app } = await openForms(t, provider)
    await submit('override.html', { client: 'user:1', effect: 'deny', expiresAt: '1h' })
    await submit('override.html', { client: 'user:2', effect: 'allow' })
    await submit('override.html', { client: 'user:3', effect: '5/m' })
    await app.smartRateLimit.client.rateLimitOverride.create({
      data: {
        client: 'user:4',
        effect: 'deny',
        note: 'banned by rule login',
        createdAt: new Date(clock.now()),
        updatedAt: new Date(clock.now()),
        expiresAt: new Date(clock.now() + 2 * HOUR_MS),
      },
    })
    const list = async (query: string) => listed((await get(`overrides.html?${query}`)).text)
    assert.deepEqual(await list('kind=blocks'), ['user:1'])
    assert.deepEqual(await list('kind=bans'), ['user:4'])
    assert.deepEqual(await list('kind=exemptions'), ['user:2'])
    assert.deepEqual(await list('kind=rates'), ['user:3'])
    assert.deepEqual(await list('kind=nonsense&order=no'), ['user:4', 'user:3', 'user:2', 'user:1'])
    assert.deepEqual(await list('order=end'), ['user:1', 'user:4', 'user:2', 'user:3'])
    clock.advance(90 * 60_000)
    assert.deepEqual(await list('state=expired'), ['user:1'])
    assert.deepEqual(await list('state=in-force&order=client'), ['user:2', 'user:3', 'user:4'])
    assert.match((await get('overrides.html?state=expired')).text, /Ended <time/)
  })

  test('ticked overrides end at once, those that changed meanwhile stay, and Undo brings them back', async (t) => {
    const { get, open, submit, app } = await openForms(t, provider, 'operator')
    for (const client of ['user:1', 'user:2', 'user:3']) await submit('override.html', { client, effect: 'deny' })
    const page = await open('overrides.html?q=user&tick=all')
    assert.equal(page.text.match(/ checked/g)?.length, 3)
    const third = await app.smartRateLimit.client.rateLimitOverride.findFirstOrThrow({ where: { client: 'user:3' } })
    await submit(`override.html?id=${third.id}`, { note: 'changed meanwhile' })
    const ended = await page.submit({ seen: boxes(page.text), q: 'user' }, {}, 'overrides-bulk')
    assert.deepEqual([ended.status, ended.headers.location], [303, 'overrides.html?q=user'])
    const after = await get('overrides.html?q=user', ended)
    assert.deepEqual(listed(after.text), ['user:3'])
    assert.match(after.text, /2 overrides were ended\. 1 override was ended or changed since/)
    await page.submit(undoFields(after.text), {}, 'change-revert')
    assert.deepEqual(listed((await get('overrides.html?order=client')).text), ['user:1', 'user:2', 'user:3'])
    const { actor, source } = await app.smartRateLimit.client.rateLimitChange.findFirstOrThrow({
      orderBy: { id: 'desc' },
    })
    assert.deepEqual([actor, source], ['alice', 'dashboard'])
  })

  test('a viewer is let do nothing', async (t) => {
    const { open, app } = await openForms(t, provider, 'viewer')
    const { id } = await app.smartRateLimit.client.rateLimitOverride.create({
      data: { client: 'user:1', effect: 'deny' },
    })
    const page = await open('overrides.html')
    assert.equal((await page.submit({ seen: `${id}:${'a'.repeat(22)}` }, {}, 'overrides-bulk')).status, 403)
  })

  test('many overrides are paged in each order, forward and back, without gaps', async (t) => {
    const { get, clock, app } = await openForms(t, provider, 'viewer')
    await app.smartRateLimit.client.rateLimitOverride.createMany({
      data: Array.from({ length: 230 }, (_, index) => ({
        client: `user:${1000 + index}`,
        effect: 'deny',
        // Many end at the same moment, and some never.
        expiresAt: index % 3 === 0 ? null : new Date(clock.now() + HOUR_MS * (1 + (index % 2))),
      })),
    })
    const link = (html: string, rel: string) =>
      new RegExp(`href="([^"]+)" rel="${rel}"`).exec(html)?.[1]?.replaceAll('&amp;', '&').replaceAll('&#x3D;', '=')
    for (const order of ['newest', 'client', 'end']) {
      const pages: string[][] = []
      let page = await get(`overrides.html?order=${order}`)
      for (;;) {
        pages.push(listed(page.text))
        const next = link(page.text, 'next')
        if (next === undefined) break
        page = await get(next)
      }
      assert.deepEqual(
        pages.map(({ length }) => length),
        [100, 100, 30],
        order,
      )
      assert.equal(new Set(pages.flat()).size, 230)
      for (const earlier of [pages[1], pages[0]]) {
        page = await get(link(page.text, 'prev') ?? '')
        assert.deepEqual(listed(page.text), earlier, order)
      }
    }
    for (const wrong of ['x', '[]', '{}', '["a","b","c"]', '[1e99]', '[null]', '["\\u0000"]']) {
      assert.equal((await get(`overrides.html?after=${encodeURIComponent(wrong)}`)).status, 200, wrong)
    }
  })

  test('rows that raw SQL wrote are shown as what they are', async (t) => {
    const { get, database } = await openForms(t, provider)
    const { dialect } = database
    await database.execute(
      `INSERT INTO ${dialect.table('rate_limit_override')} (client, effect, note, path_pattern)
       VALUES ('203.0.113.7', 'block', '<script>', '(')`,
    )
    const { status, text } = await get('overrides.html')
    assert.equal(status, 200)
    assert.match(text, /Not valid: it never applies/)
    assert.match(text, /&lt;script&gt;/)
  })
})
