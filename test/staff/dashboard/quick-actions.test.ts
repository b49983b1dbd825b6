/** What a row of the dashboard offers for its client, and for whom. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DashboardOptions } from '../../../src/dashboard.js'
import { keepCookies, SAME_ORIGIN, unescapeHtml } from '../../support/client-forms.js'
import { logEvents } from '../../support/events.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const OPERATOR: DashboardOptions = { isStaff: () => ({ actor: 'alice', role: 'operator' }) }
const HOSTILE = 'header:x:"><script>'
/** Clients whose latest refusal is a POST of /login, and then a request that was let through. */
const CLIENTS = ['ip:203.0.113.7', 'user:7', HOSTILE, 'ip:198.51.100.9']

async function start(t: Parameters<typeof startWithStaff>[0], staff = OPERATOR, useDynamicRules = true) {
  const started = await startWithStaff(t, 'sqlite', staff, { useDynamicRules })
  const { client } = started.app.smartRateLimit
  for (const key of CLIENTS) {
    await logEvents(client, { key, client: key, blocked: 3, path: '/login', method: 'POST', atMs: NOW_MS - 2_000 })
    await logEvents(client, { key, client: key, allowed: 1, path: '/later', atMs: NOW_MS - 1_000 })
  }
  const page = async (query = '') => (await started.request(DASHBOARD + query)).text
  return { ...started, client, page }
}

const blocks = (text: string) => text.split('action="block"').length - 1

test('a client that overrides can name is blocked from its row, unless something is in force for it', async (t) => {
  const { page, client } = await start(t)
  assert.equal(blocks(await page()), 3)
  await client.rateLimitOverride.create({ data: { client: 'ip:198.51.100.0/24', effect: 'deny' } })
  await client.rateLimitOverride.create({ data: { client: 'user:7', effect: '90/m' } })
  const text = await page()
  assert.equal(blocks(text), 1)
  assert.match(text, /<span class="faint">Denied for ever<\/span>/)
  assert.match(text, /<span class="faint">Limited to 90\/m for ever<\/span>/)
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

test('the page that a block of a row leads to leads back to the list and the filter of the row', async (t) => {
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
  const { text } = await send(headers.location ?? '')
  const [, back = ''] = /<a class="back" href="([^"]*)"/.exec(text) ?? []
  assert.equal(unescapeHtml(back), './?days=1&path=%2Flogin&by=requests&group=network')
})

test('staff who may not write, and a server without overrides, have no such button', async (t) => {
  const readers: DashboardOptions[] = [{ isStaff: () => true }, { isStaff: () => ({ actor: 'bob', role: 'viewer' }) }]
  for (const staff of readers) {
    const { page } = await start(t, staff)
    assert.equal(blocks(await page()), 0)
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
