/** What a row of the dashboard offers for its client, and for whom. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { DashboardOptions } from '../../../src/dashboard.js'
import { keepCookies, SAME_ORIGIN, unescapeHtml } from '../../support/client-forms.js'
import { logEvents } from '../../support/events.js'
import { long } from '../../support/long.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const OPERATOR: DashboardOptions = { isStaff: () => ({ actor: 'alice', role: 'operator' }) }
const HOSTILE = 'header:x:"><script>'
/** Clients whose latest refusal is a POST of /login, and then a request that was let through. */
const CLIENTS = ['ip:203.0.113.7', 'user:7', HOSTILE, 'ip:198.51.100.9']

async function start(t: TestContext, staff = OPERATOR, useDynamicRules = true) {
  const started = await startWithStaff(t, 'sqlite', staff, { useDynamicRules })
  const { client } = started.app.smartRateLimit
  for (const key of CLIENTS) {
    await logEvents(client, { key, client: key, blocked: 3, path: '/login', method: 'POST', atMs: NOW_MS - 2_000 })
    await logEvents(client, { key, client: key, allowed: 1, path: '/later', atMs: NOW_MS - 1_000 })
  }
  const page = async (query = '') => (await started.request(DASHBOARD + query)).text
  return { ...started, client, page }
}

/** Counts the buttons that block at once, and the menus. */
const blocks = (text: string) => text.split('name="for" value="2h"').length - 1
const menus = (text: string) => text.split('<details class="menu"').length - 1

test('a client that overrides can name is blocked from its row, unless something is in force for it', async (t) => {
  const { page, client } = await start(t)
  assert.equal(blocks(await page()), 3)
  await client.rateLimitOverride.create({ data: { client: 'ip:198.51.100.0/24', effect: 'deny' } })
  await client.rateLimitOverride.create({ data: { client: 'user:7', effect: '90/m' } })
  const text = await page()
  assert.equal(blocks(text), 1)
  assert.match(text, /<span class="faint">Denied for ever<\/span>/)
  assert.match(text, /<span class="faint">Limited to 90\/m for ever<\/span>/)
  assert.equal(menus(text), 3)
  assert.doesNotMatch(text, /<script>/)
})

test('a network leads to its page, and is blocked from its row, unless something is in force for it', async (t) => {
  const { page, client } = await start(t)
  const text = await page('?group=network')
  assert.match(text, /href="client\.html\?client&#x3D;ip%3A203\.0\.113\.0%2F24&amp;/)
  assert.match(text, /name="client" value="ip:203\.0\.113\.0\/24"/)
  assert.equal(blocks(text), 2)
  await client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.0/24', effect: 'deny' } })
  // It says nothing about its neighbours.
  await client.rateLimitOverride.create({ data: { client: 'ip:198.51.100.0', effect: 'allow' } })
  const after = await page('?group=network')
  assert.equal(blocks(after), 1)
  assert.match(after, /203\.0\.113\.0\/24<.*<span class="faint">Denied for ever<\/span>/s)
})

test('a block of a row leads back to the list and the filter of the row, and the notice names the client', async (t) => {
  const { request } = await start(t)
  const send = (path: string, asked: Parameters<typeof request>[1] = {}) => request(DASHBOARD + path, asked)
  const listed = await send('?days=1&group=network&by=requests&path=%2Flogin')
  const [, form = ''] = /<form method="post" action="block">(.*?)<\/form>/s.exec(listed.text) ?? []
  const fields = form.matchAll(/ name="([^"]*)" value="([^"]*)"/g)
  const body = new URLSearchParams(
    Object.fromEntries(Array.from(fields, ([, name = '', value = '']) => [name, unescapeHtml(value)])),
  )
  const { status, headers } = await send('block', {
    method: 'POST',
    body: body.toString(),
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      cookie: keepCookies('', listed),
      ...SAME_ORIGIN,
    },
  })
  assert.equal(status, 303)
  assert.equal(headers.location, './?days=1&path=%2Flogin&by=requests&group=network')
})

/** Returns the form of a client's row, with the cookies of the page: a function that presses one of its buttons. */
async function openRow({ request }: Pick<Awaited<ReturnType<typeof start>>, 'request'>, name: string, query = '') {
  const listed = await request(DASHBOARD + query)
  const rows = listed.text.split('<tr role="row"').filter((row) => row.includes(`data-key="${name}"`))
  const [, form = ''] = /<form method="post" action="block">(.*?)<\/form>/s.exec(rows[0] ?? '') ?? []
  const inputs = [...form.matchAll(/<input[^>]* name="([^"]*)" value="([^"]*)"/g)]
  const fields = Object.fromEntries(inputs.map(([, field = '', value = '']) => [field, unescapeHtml(value)]))
  const [, keep = ''] = /<option value="([^"]*)" selected/.exec(form) ?? []
  return {
    form: unescapeHtml(form),
    async press(action: string, further: Readonly<Record<string, string>>): Promise<number> {
      const { status } = await request(DASHBOARD + action, {
        method: 'POST',
        body: new URLSearchParams({ ...fields, keep, ...further }).toString(),
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          cookie: keepCookies('', listed),
          ...SAME_ORIGIN,
        },
      })
      return status
    },
  }
}

test(
  'the menu of a row raises, exempts and blocks its client for as long as is chosen, and ends what is in force',
  long(),
  async (t) => {
    const its = await start(t, OPERATOR, true)
    const stored = async () =>
      (await its.client.rateLimitOverride.findMany({ orderBy: { id: 'asc' } })).map(
        ({ client, effect, expiresAt, note }) => [client, effect, expiresAt?.toISOString().slice(0, 16), note],
      )
    const row = await openRow(its, 'user:7')
    assert.match(row.form, /Set a rate <span class="faint">instead of 2\/m, the default rate/)
    assert.equal(await row.press('raise', { to: '10/m', note: 'a customer' }), 303)
    assert.deepEqual(await stored(), [['user:7', '10/m', '2026-01-16T12:00', 'a customer']])

    const raised = await openRow(its, 'user:7')
    assert.match(raised.form, /End the override/)
    assert.match(raised.form, /instead of 10\/m, its override/)
    assert.equal(await raised.press('block', { length: '90m' }), 303)
    assert.deepEqual(
      (await stored()).map(([, effect, until]) => [effect, until]),
      [
        ['10/m', '2026-01-16T12:00'],
        ['deny', '2026-01-15T13:30'],
      ],
    )
    const blocked = await openRow(its, 'user:7')
    const [end = '', ...others] = Array.from(
      blocked.form.matchAll(/name="end" value="([^"]*)"/g),
      ([, value = '']) => value,
    )
    assert.equal(others.length, 1)
    assert.match(blocked.form, /Block for this time instead/)
    assert.equal(await blocked.press('end', { end }), 303)
    assert.deepEqual(
      (await stored()).map(([, effect]) => effect),
      ['10/m'],
    )
    // What has ended meanwhile is not ended again, and nothing else is.
    assert.equal(await blocked.press('end', { end }), 303)
    assert.equal(await blocked.press('end', { end: 'x' }), 303)
    assert.deepEqual(
      (await stored()).map(([, effect]) => effect),
      ['10/m'],
    )
    assert.equal(await (await openRow(its, 'user:7')).press('allow', { keep: 'ever' }), 303)
    assert.deepEqual(await stored(), [['user:7', 'allow', undefined, '']])
  },
)

test('a row names no rate that another one replaces where the page does not know all limits that its client met', async (t) => {
  const its = await start(t, OPERATOR, true)
  const { form } = await openRow(its, 'user:7', '?path=%2Flogin')
  assert.match(form, /Set this rate/)
  assert.doesNotMatch(form, /instead of/)
  await its.client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.0/24', effect: 'deny' } })
  const inside = await openRow(its, 'ip:203.0.113.7')
  assert.match(inside.form, /End the block of ip:203\.0\.113\.0\/24/)
  assert.match(inside.form, /The block of .* takes precedence:/)
})

test('staff who may not write, and a server without overrides, have no such button', async (t) => {
  const readers: DashboardOptions[] = [{ isStaff: () => true }, { isStaff: () => ({ actor: 'bob', role: 'viewer' }) }]
  for (const staff of readers) {
    const { page, client } = await start(t, staff)
    await client.rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny' } })
    const text = await page()
    assert.deepEqual([blocks(text), menus(text)], [0, 0])
    assert.match(text, /Denied for ever/)
    assert.doesNotMatch(text, /End the block/)
  }
  const { page } = await start(t, OPERATOR, false)
  assert.equal(blocks(await page()), 0)
})

test('pages that follow share their HTML until a client is blocked, and each has its own account', async (t) => {
  let actor = 'bob'
  const { page, client } = await start(t, { isStaff: () => ({ actor, role: 'viewer' }) })
  const first = await page('?follow=1')
  assert.equal(await page('?follow=1'), first)
  await client.rateLimitOverride.create({ data: { client: 'ip:198.51.100.0/24', effect: 'deny' } })
  const blocked = await page('?follow=1')
  assert.match(blocked, /<span class="faint">Denied for ever<\/span>/)
  assert.doesNotMatch(first, /Denied for ever/)
  actor = 'carol'
  const others = await page('?follow=1')
  assert.ok(others.includes('carol') && !others.includes('bob'))
})
