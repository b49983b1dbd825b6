/** The words of every page, as each role reads them. What actions do is tested elsewhere. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { apiPlugin } from '../../src/api.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import { pluginParts } from '../../src/plugin/parts.js'
import { asActor, fromSource } from '../../src/rules/history/actor.js'
import { addToken } from '../../src/staff/api/token-table.js'
import type { StaffRole } from '../../src/staff/shell/roles.js'
import { dateChanges } from '../support/changes.js'
import { logRows } from '../support/events.js'
import { assertPage, assertPages, PAGE_TREES } from '../support/page-tree.js'
import { cookieOf, DASHBOARD, PASSWORD, startWithStaff } from '../support/staff-app.js'
import { openForms } from '../support/staff-forms.js'
import { charge } from '../support/usage.js'

const CLIENT = 'ip:203.0.113.7'
const NETWORK = 'ip:203.0.113.0/24'
const PLUGIN: RateLimitOptions = {
  useDynamicRules: true,
  usage: ['tokens'],
  alertEmails: ['ops@example.com', 'oncall@example.com'],
  defaultFromEmail: 'alerts@example.com',
  smtpUrl: 'smtp://mailer:hunter2@mail.example.com:2525',
  alertWebhook: 'https://name:hunter2@hooks.example.com/T0K3N?key=T0K3N',
  alertWebhookFormat: 'slack',
  schedule: { alerts: '0 12 * * *' },
}

/** The addresses of pages by the names of their texts; of those that not every role reads alike, each role's. */
const BUSY: Readonly<Record<string, string>> = {
  'dashboard-busy': '?days=1',
  'dashboard-filtered': '?days=1&rule=login&path=/login&method=POST',
  clients: 'clients.html',
  client: `client.html?client=${CLIENT}`,
  network: `client.html?client=${NETWORK}`,
  'client-denied': 'client.html?client=user:1&days=1',
  'client-unknown': 'client.html?client=user:nobody',
  key: 'offender.html?key=rule:login:203.0.113.7',
  rules: 'rules.html',
  'rules-found': 'rules.html?q=login&tick=all',
  rule: 'rule.html?named=login',
  'rule-form': 'rule.html',
  overrides: 'overrides.html',
  override: `override.html?named=${CLIENT}`,
  'override-form': 'override.html',
  counters: 'counters.html',
  events: 'events.html',
  'events-filtered': `events.html?client=${CLIENT}&outcome=refused`,
  explain: 'explain.html?event=1',
  changes: 'changes.html',
  alerts: 'alerts.html',
  tokens: 'tokens.html',
  usage: 'usage.html',
  exchange: 'exchange.html',
  search: 'search.html?q=login',
}
const EMPTY: Readonly<Record<string, string>> = {
  dashboard: '',
  'dashboard-nothing': '?days=1&rule=%3Cb%3Enone',
  clients: 'clients.html',
  key: 'offender.html?key=nobody',
  rules: 'rules.html',
  overrides: 'overrides.html',
  counters: 'counters.html',
  events: 'events.html',
  changes: 'changes.html',
  alerts: 'alerts.html',
  tokens: 'tokens.html',
  usage: 'usage.html',
  search: 'search.html?q=nobody',
  'no-key': 'offender.html',
}

/** What the server does not do, by the names of the texts. */
const WITHOUT: Readonly<Record<string, readonly [address: string, plugin: RateLimitOptions]>> = {
  'dashboard-off': ['', { enabled: false }],
  'dashboard-without-log': ['', { logEvents: false }],
  'key-without-log': ['offender.html?key=nobody', { logEvents: false }],
  'events-without-log': ['events.html', { logEvents: false }],
  'rules-off': ['rules.html', { useDynamicRules: false }],
  'client-rules-off': [`client.html?client=${CLIENT}`, { useDynamicRules: false }],
  'usage-off': ['usage.html', { usage: false }],
  'alerts-without-log': ['alerts.html', { logEvents: false }],
  'alerts-without-server': [
    'alerts.html',
    { alertEmails: ['ops@example.com'], defaultFromEmail: 'alerts@example.com' },
  ],
}

const READERS: readonly StaffRole[] = ['admin', 'operator', 'viewer']

const withApi = (app: FastifyInstance) => void app.register(apiPlugin, { prefix: '/api' })

/** A flood of a network, three rules of which one was edited, and an override of each kind. */
async function startBusy(t: TestContext, role: StaffRole) {
  const forms = await openForms(t, 'sqlite', role, PLUGIN, withApi)
  const { app, clock, database, statuses } = forms
  const { rateLimitRule: rules, rateLimitOverride: overrides } = app.smartRateLimit.client
  const [nowMs, createdAt] = [clock.now(), new Date(clock.now() - 30 * HOUR_MS)]
  const expiresAt = new Date(nowMs + HOUR_MS)
  await asActor('alice', async () => {
    await rules.create({ data: { name: 'login', pathPattern: '^/login', rate: '5/m', priority: 5, group: 'sign-in' } })
    await rules.create({
      data: { name: 'search', pathPattern: '^/search', rate: '30/m', condition: "user.plan == 'free'" },
    })
    await rules.create({
      data: { name: 'old', pathPattern: '^/old', rate: '1/s, 10/m', isActive: false, block: false },
    })
    await overrides.create({
      data: { client: 'user:1', effect: 'deny', note: 'scrapes', expiresAt, createdAt, updatedAt: createdAt },
    })
  })
  await overrides.create({
    data: { client: CLIENT, effect: '100/m', pathPattern: '^/api', createdAt, updatedAt: createdAt },
  })
  await overrides.create({ data: { client: 'ip:198.51.100.0/24', effect: 'allow', createdAt, updatedAt: createdAt } })
  await asActor('bob', () =>
    fromSource('dashboard', () =>
      rules.update({ where: { name: 'search' }, data: { rate: '20/m', description: 'Costs the most' } }),
    ),
  )
  await dateChanges(database, nowMs - 30 * HOUR_MS, nowMs - 20 * MINUTE_MS)
  const refused = { allowed: false, count: 6, limit: 5, outcome: 'over_limit' } as const
  const login = { policy: 'login', ruleName: 'login', path: '/login', method: 'POST' }
  for (const [last, weight] of [
    [7, 60],
    [8, 40],
  ] as const) {
    const its = {
      ...login,
      client: `ip:203.0.113.${last}`,
      key: `rule:login:203.0.113.${last}`,
      clientIp: `203.0.113.${last}`,
    }
    await logRows(database, [
      { ...its, ...refused, weight, timestampMs: nowMs - 10 * MINUTE_MS },
      { ...its, weight: 5, timestampMs: nowMs - 10 * MINUTE_MS },
    ])
  }
  const other = { client: 'user:1', key: 'user:1', path: '/search', timestampMs: nowMs - 5 * MINUTE_MS }
  await logRows(database, [
    { ...other, weight: 3 },
    { ...other, allowed: false, outcome: 'denied', policy: 'override', limit: 0, weight: 2 },
    { ...other, count: 9, outcome: 'over_limit', policy: 'old', ruleName: 'old' },
    { ...other, count: 95, limit: 100, timestampMs: nowMs - 30_000 },
  ])
  await addToken(database, { name: 'ci', role: 'viewer', expiresAtMs: nowMs + 24 * HOUR_MS }, nowMs)
  pluginParts(app).usage?.record(charge({ client: 'user:1', amount: 5_000, atMs: nowMs }))
  await app.smartRateLimit.rules.reload()
  await statuses(1, '/', { from: '192.0.2.1' })
  await app.smartRateLimit.events.flush()
  return forms
}

test('the pages of a busy limiter, as an admin reads them, and what differs for others', async (t) => {
  const apps = await Promise.all(READERS.map(async (role) => [role, await startBusy(t, role)] as const))
  for (const [name, address] of Object.entries(BUSY)) {
    await t.test(name, async () => {
      const answers = await Promise.all(apps.map(async ([role, { get }]) => [role, await get(address)] as const))
      assertPages(name, Object.fromEntries(answers))
    })
  }
})

test('the pages where nothing has happened yet', async (t) => {
  const { get } = await openForms(t, 'sqlite', 'admin')
  for (const [name, address] of Object.entries(EMPTY)) {
    await t.test(name, async () => assertPage(`${name}-empty`, await get(address)))
  }
})

test('the pages of servers that leave something out', async (t) => {
  for (const [name, [address, plugin]] of Object.entries(WITHOUT)) {
    await t.test(name, async (t) => {
      const { get } = await openForms(t, 'sqlite', 'admin', plugin)
      assertPage(name, await get(address))
    })
  }
})

test('the pages of staff without a name', async (t) => {
  const { request, app, database } = await startWithStaff(
    t,
    'sqlite',
    { isStaff: () => true },
    { useDynamicRules: true },
  )
  await app.smartRateLimit.client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/', rate: '1/m' } })
  for (const name of ['rules', 'overrides', 'changes', 'tokens', 'exchange', 'rule']) {
    const query = name === 'rule' ? '?named=login' : ''
    await t.test(name, async () => {
      if (name === 'changes') await dateChanges(database, 0)
      assertPage(`${name}-unnamed`, await request(`${DASHBOARD}${name}.html${query}`))
    })
  }
})

test('the page of an address that has none', async (t) => {
  const { request } = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  const headers = { accept: 'text/html' }
  assertPage('not-found', await request(`${DASHBOARD}nothing.html`, { headers }))
})

test('the sign-in, and the header of every page', async (t) => {
  const { request, signIn } = await startWithStaff(t, 'sqlite')
  assertPage('sign-in', await request(`${DASHBOARD}sign-in`))
  assertPage('sign-in-first', await request(DASHBOARD, { headers: { accept: 'text/html' } }))
  assertPage('sign-in-wrong', await signIn('wrong'))
  const { headers } = await signIn(PASSWORD)
  assertPage('header', await request(DASHBOARD, { headers: { cookie: cookieOf(headers) } }), 'header')
})

test('every text is that of a page in a test', () => {
  const tests = readdirSync(join(PACKAGE_ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  const sources = tests
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => readFileSync(join(PACKAGE_ROOT, 'test', name), 'utf8'))
  const named = new Set(sources.flatMap((text) => text.match(/(?<=')[\w-]+(?=')|\b[\w-]+(?=: )/g) ?? []))
  const unused = readdirSync(PAGE_TREES).filter((file) => !named.has(file.replace(/(?:-empty|-unnamed)?\.txt$/, '')))
  assert.deepEqual(unused, [])
})
