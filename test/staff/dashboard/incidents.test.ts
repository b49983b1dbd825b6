/** The incidents on top of the dashboard: what a row says, what it offers, and what came of it. */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { databaseFor } from '../../../src/database/database.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import { createIncidentMessage } from '../../../src/operations/alerts/incident-message.js'
import { asActor } from '../../../src/rules/history/actor.js'
import type { StaffRole } from '../../../src/staff/shell/roles.js'
import { dateChanges } from '../../support/changes.js'
import { unescapeHtml } from '../../support/client-forms.js'
import { logRows } from '../../support/events.js'
import { openForms, undoFields } from '../../support/staff-forms.js'

async function start(t: TestContext, role: StaffRole = 'admin') {
  const forms = await openForms(t, 'sqlite', role)
  const { client, analytics } = forms.app.smartRateLimit
  const database = databaseFor(client)
  const nowMs = forms.clock.now()
  await client.rateLimitRule.create({ data: { name: 'search', pathPattern: '^/search', rate: '5/m' } })
  await dateChanges(database, 0)
  const refuse = (name: string, count: number, atMs: number, event: Partial<RateLimitEvent> = {}) =>
    logRows(
      database,
      Array.from({ length: count }, () => ({
        timestampMs: atMs,
        client: name,
        key: `rule:search:${name.replace(/^ip:/, '')}`,
        ruleName: 'search',
        policy: 'search',
        path: '/search',
        allowed: false,
        outcome: 'over_limit' as const,
        ...event,
      })),
    )
  /** Returns the rows of the incidents, as text. */
  const rows = async () => {
    const { text } = await forms.get('')
    const [, section = ''] = /<section class="card incidents"(.*?)<\/section>/s.exec(text) ?? []
    return section
      .split('<li')
      .slice(1)
      .map((row) => ({ html: row, text: unescapeHtml(row.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')) }))
  }
  return { ...forms, client, analytics, database, nowMs, refuse, rows }
}

/** Returns where `Raise` of a row leads. */
function raiseOf(row: { readonly html: string } | undefined): string {
  return unescapeHtml(/href="([^"]*)">Raise/.exec(row?.html ?? '')?.[1] ?? '')
}

/** Returns the fields of an override's form, as it shows them. */
function fieldsOf(html: string): Record<string, string> {
  const inputs = html.matchAll(/<input[^>]* name="(client|effect|pathPattern|expiresAt)"[^>]* value="([^"]*)"/g)
  const [, algorithm = ''] = /<option value="([^"]*)" selected/.exec(html) ?? []
  const typed = [...inputs].map(([, name = '', value = '']) => [name, unescapeHtml(value)])
  return { ...Object.fromEntries(typed), algorithm }
}

test('an incident is one sentence with its actions, and what came of one is beside it', async (t) => {
  const { refuse, rows, nowMs, clock, client, database } = await start(t)
  const startMs = nowMs - 40 * MINUTE_MS
  for (const name of ['ip:203.0.113.7', 'ip:203.0.113.8']) await refuse(name, 600, startMs)
  const [row] = await rows()
  const since = new Date(Math.floor(startMs / MINUTE_MS) * MINUTE_MS).toISOString().slice(11, 16)
  assert.match(
    row?.text ?? '',
    new RegExp(`203\\.0\\.113\\.0/24 , since ${since} UTC , 1,200 refused , 2 clients of one network , /search`),
  )
  assert.match(row?.html ?? '', /action="block".*name="client" value="ip:203\.0\.113\.0\/24"/s)
  assert.match(row?.html ?? '', /href="rule-form\.html\?[^"]*path&#x3D;%2Fsearch[^"]*">Make a rule|>Make a rule/)

  await client.rateLimitOverride.create({ data: { client: '203.0.113.0/24', effect: 'deny' } })
  const moveAction = (atMs: number) => dateChanges(database, 0, atMs)
  await moveAction(startMs + 5 * MINUTE_MS)
  await refuse('ip:203.0.113.7', 70, startMs + 8 * MINUTE_MS, { outcome: 'denied', policy: 'override', ruleName: '' })
  // At first by the events, then by whole minutes.
  await refuse('ip:203.0.113.8', 5, nowMs - 70_000)
  await refuse('ip:203.0.113.8', 9, nowMs - 30_000, { outcome: 'denied', policy: 'override', ruleName: '' })
  await moveAction(nowMs - 40_000)
  const [early] = await rows()
  assert.match(
    early?.text ?? '',
    /40 seconds before: 0 allowed, 5 refused, 0 denied; 40 seconds since: 0 allowed, 0 refused, 9 denied\./,
  )

  await moveAction(startMs + 5 * MINUTE_MS)
  clock.advance(MINUTE_MS)
  const [acted] = await rows()
  assert.match(acted?.text ?? '', /Acted on .* 1,205 refused , 2 clients of one network .* Blocked \d\d:\d\d UTC/)
  assert.match(
    acted?.text ?? '',
    /3\d minutes before: 0 allowed, 1,200 refused, 0 denied; 3\d minutes since: 0 allowed, 5 refused, 79 denied\./,
  )
  assert.doesNotMatch(acted?.html ?? '', /name="for"/)
  assert.match(acted?.html ?? '', /formaction="end">End the block</)
})

test('an incident that is ignored is no longer on top, for everybody, until it is watched again', async (t) => {
  const { refuse, rows, nowMs, open, analytics, get, follow, clock } = await start(t, 'operator')
  await refuse('user:7', 60, nowMs - 5 * MINUTE_MS)
  const [incident] = await analytics.getIncidents()
  assert.doesNotMatch((await rows())[0]?.html ?? '', /Make a rule/)

  const page = await open('')
  const form = { id: incident?.id ?? '', scope: 'user:7', days: '7' }
  const answer = await page.submit(form, {}, 'ignore')
  assert.deepEqual([answer.status, answer.headers.location], [303, './?days=7'])
  const notice = await follow(answer)
  assert.match(notice.text, /The incident of user:7 is ignored until it is over\./)
  assert.deepEqual(await rows(), [])
  assert.match((await get('')).text, /1 ignored.*user:7.*Ignored by alice/s)
  assert.equal((await analytics.getIncidents())[0]?.state, 'acted_on')
  assert.match(
    (await follow(await page.submit(form, {}, 'ignore'))).text,
    /Nothing was changed: somebody else was quicker\./,
  )

  const undone = await (await open('changes.html')).submit(undoFields(notice.text), {}, 'change-revert')
  assert.equal(undone.headers.location, './?days=7')
  const after = await follow(undone)
  assert.match(after.text, /The incident of user:7 is watched again\./)
  assert.match(after.text, /<button>Redo</)
  assert.equal((await rows()).length, 1)
  await page.submit(form, {}, 'ignore')
  await page.submit({ ...form, ignore: 'no' }, {}, 'ignore')
  assert.equal((await rows()).length, 1)

  const { text } = await get('changes.html?entity=incident&name=user:7')
  const sentences = [...text.matchAll(/<b><bdi>(.*?)<\/bdi><\/b> <bdi>(.*?)<\/bdi>/g)].map(
    ([, who, what]) => `${who} ${what}`,
  )
  const [ignored, watched] = ['alice ignored the incident of user:7', 'alice watched the incident of user:7 again']
  assert.deepEqual(sentences, [watched, ignored, watched, ignored])
  assert.doesNotMatch((await get('changes.html?entity=rule')).text, /incident of/)

  assert.equal((await page.submit({ id: 'all' }, {}, 'ignore')).status, 400)
  const grown = await follow(await page.submit({ ...form, scope: 'ip:203.0.113.7' }, {}, 'ignore'))
  assert.match(grown.text, /Nothing was changed: it has become the incident of user:7\./)
  clock.advance(3 * HOUR_MS)
  assert.match((await follow(await page.submit(form, {}, 'ignore'))).text, /Nothing was changed: it is over\./)
})

test('a message leads to the incident, while it goes on and when it is long over', async (t) => {
  const { refuse, rows, get, nowMs, clock, analytics } = await start(t)
  const startMs = nowMs - 40 * MINUTE_MS
  await refuse('user:7', 60, startMs)
  await refuse('user:8', 60, nowMs - DAY_MS)
  const addressOf = async () => {
    const incident = (await analytics.getIncidents()).find(({ scope }) => scope === 'user:7')
    assert.ok(incident)
    const [link] = createIncidentMessage(incident, incident.id, 'https://example.com/').links
    return new URL(link?.url ?? '')
  }
  const shownAt = async ({ pathname, search }: URL) => {
    const { headers } = await get(pathname.slice(1) + search)
    const shown = new URL(String(headers.location), 'https://example.com/')
    const { text } = await get(shown.search)
    return new RegExp(`<li id="${shown.hash.slice(1)}".*?</li>`, 's').exec(text)?.[0] ?? ''
  }
  const open = await addressOf()
  assert.match(await shownAt(open), /user:7/)
  assert.match(await shownAt(open), /Ignore/)
  clock.advance(3 * HOUR_MS)
  const over = await addressOf()
  assert.deepEqual(await rows(), [], 'the dashboard itself has what goes on')
  for (const laterMs of [0, 10 * DAY_MS]) {
    clock.advance(laterMs)
    for (const address of [open, over]) {
      const row = await shownAt(address)
      assert.match(row, /user:7.*until .*It is over\./s)
      assert.doesNotMatch(row, /Ignore|Raise|action="block"/)
    }
  }
  assert.doesNotMatch((await get(over.search)).text, /user:8/)
})

test('an action of a row leads back to the dashboard, whose notice names the client', async (t) => {
  const { refuse, nowMs, open, follow } = await start(t, 'operator')
  for (const name of ['ip:203.0.113.7', 'ip:203.0.113.8']) await refuse(name, 600, nowMs - 5 * MINUTE_MS)
  const page = await open('?days=1')
  const form = { client: 'ip:203.0.113.0/24', seen: '', beside: '', days: '1', returns: 'dashboard' }
  const answer = await page.submit({ ...form, for: '2h' }, {}, 'block')
  assert.deepEqual([answer.status, answer.headers.location], [303, './?days=1'])
  const { text } = await follow(answer)
  assert.match(text, /203\.0\.113\.0\/24 is denied until <time/)
  assert.match(text, /<button>Undo</)
  const wrong = await page.submit({ ...form, keep: 'soon' }, {}, 'block')
  assert.match(wrong.headers.location ?? '', /^client\.html\?/)
})

test('viewers see incidents, and may do nothing about them', async (t) => {
  const { refuse, rows, nowMs, open, analytics } = await start(t, 'viewer')
  await refuse('user:7', 60, nowMs - 5 * MINUTE_MS)
  await refuse('header:x:"><script>alert(1)</script>', 60, nowMs - 5 * MINUTE_MS)
  const shown = await rows()
  assert.equal(shown.length, 2)
  for (const { html } of shown) assert.doesNotMatch(html, /<form|<script|#actions|Make a rule/)
  const [incident] = await analytics.getIncidents()
  assert.equal((await (await open('')).submit({ id: incident?.id ?? '' }, {}, 'ignore')).status, 403)
})

test('the edit since which a rule refuses so much is told with its incident, until somebody has acted', async (t) => {
  const { refuse, rows, nowMs, client, clock, database } = await start(t)
  const setRate = (actor: string, rate: string) =>
    asActor(actor, () => client.rateLimitRule.update({ where: { name: 'search' }, data: { rate } }))
  await setRate('grace', '2/m')
  await dateChanges(database, 0, nowMs - 6 * MINUTE_MS)
  for (let each = 0; each < 25; each++) await refuse(`user:${each}`, 10, nowMs - 5 * MINUTE_MS)
  const edited = /grace changed the rate from 5\/m to 2\/m at \d\d:\d\d UTC/
  assert.match((await rows())[0]?.text ?? '', edited)

  await setRate('alice', '60/m')
  await dateChanges(database, 0, nowMs - 6 * MINUTE_MS, nowMs - 2 * MINUTE_MS)
  const open = (await rows())[0]?.text ?? ''
  assert.match(open, /Changed rule search \d\d:\d\d UTC by alice \. /)
  assert.doesNotMatch(open, /Acted on/, 'the refusals have not fallen yet')
  assert.doesNotMatch(open, edited)
  clock.advance(5 * MINUTE_MS)
  assert.match((await rows())[0]?.text ?? '', /Acted on .*Changed rule search \d\d:\d\d UTC by alice \. /)
})

test('incidents that somebody acted on come after the others, and say what is in force, by whom, and whom it serves', async (t) => {
  const { refuse, rows, nowMs, client, database, clock, get, app } = await start(t)
  await refuse('user:7', 400, nowMs - 5 * MINUTE_MS)
  await refuse('user:8', 100, nowMs - 5 * MINUTE_MS)
  await asActor('alice', () =>
    client.rateLimitOverride.create({ data: { client: 'user:7', effect: '240/m', pathPattern: '^/search' } }),
  )
  await dateChanges(database, 0, nowMs - 2 * MINUTE_MS)
  await refuse('user:7', 12, nowMs - MINUTE_MS, { allowed: true, outcome: 'allowed' })
  assert.match(
    (await rows())[0]?.text ?? '',
    /^ id=\S+ class="open" .*user:7 , since .* Limited to 240\/m for \^\/search \d\d:\d\d UTC by alice \. 2 minutes before/,
  )
  clock.advance(5 * MINUTE_MS)
  const [open, acted] = await rows()
  assert.match(open?.text ?? '', /user:8 , since .* 100 refused , one client over its limit/)
  assert.doesNotMatch(open?.text ?? '', /Acted on/)
  assert.match(
    acted?.text ?? '',
    /Acted on user:7 , since .* Limited to 240\/m for \^\/search \d\d:\d\d UTC by alice \. 7 minutes before: 0 allowed, 400 refused; 7 minutes since: 12 allowed, 0 refused\./,
  )
  assert.match((await get('')).text, /causes 80% of the refusals/)

  await client.rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny', pathPattern: '^' } })
  await app.smartRateLimit.rules.reload()
  clock.advance(1)
  assert.match(
    (await get('')).text,
    /user:7<\/bdi><\/a> caused 80% of the refusals in the last 7 days; it is denied for ever\./,
  )
})

test('a policy leads to its rule, with twice its rate', async (t) => {
  const { refuse, rows, nowMs, open } = await start(t)
  for (let each = 0; each < 25; each++) await refuse(`user:${each}`, 10, nowMs - 5 * MINUTE_MS)
  const [row] = await rows()
  assert.match(row?.text ?? '', /Policy search , since .*250 refused , 25 clients/)
  assert.doesNotMatch(row?.html ?? '', /action="block"/)
  const href = raiseOf(row)
  assert.equal(href, 'rule.html?named=search&rate=10%2Fm')
  const form = await open(href)
  assert.match(form.text, /Nothing is saved yet: 10\/m is proposed, 5\/m is stored\./)
  assert.match(form.text, /name="rate" value="10\/m"/)
  // No other field of a stored rule is proposed by an address.
  assert.doesNotMatch((await open(`${href}&pathPattern=%5E%2Fother`)).text, /\/other/)
})

test('Raise is of the limit that refused most, on its paths, to above what was asked for, and lowers no other', async (t) => {
  const { refuse, rows, nowMs, open, client } = await start(t, 'operator')
  await client.rateLimitRule.create({ data: { name: 'slow', pathPattern: '^/slow', rate: '5/m', cost: 2 } })
  for (const name of ['ip:203.0.113.7', 'ip:203.0.113.8']) {
    await refuse(name, 80, nowMs - 5 * MINUTE_MS)
    await refuse(name, 60, nowMs - 5 * MINUTE_MS, { policy: 'default', ruleName: '', path: '/' })
  }
  await refuse('user:7', 60, nowMs - 5 * MINUTE_MS, { policy: 'slow', ruleName: 'slow', path: '/slow' })
  const [network, user] = await rows()
  const raise = async (address: string) => {
    const { status, headers } = await open(address)
    assert.equal(status, 303)
    return String(headers.location)
  }
  const form = await open(await raise(raiseOf(network)))
  assert.match(form.text, /name="effect" value="160\/m"/)
  const { status } = await form.submit(fieldsOf(form.text), {}, 'override.html')
  assert.equal(status, 303)
  const [override] = await client.rateLimitOverride.findMany()
  const { client: raised, effect, algorithm, pathPattern, expiresAt } = override ?? {}
  assert.deepEqual([raised, effect, algorithm, pathPattern], ['ip:203.0.113.0/24', '160/m', 'fixed_window', '^/search'])
  assert.equal(expiresAt?.getTime(), nowMs + 24 * 60 * MINUTE_MS)
  // An override counts every request once: none can stand for a limit of which each request uses two.
  assert.doesNotMatch(user?.html ?? '', /raise-form/)
  assert.match(await raise('raise-form?client=user:7'), /^client\.html\?client=user%3A7&/)
})

test('a rule from an incident is for its busiest path, names the rule that is there, and learns nothing from its clients', async (t) => {
  const { refuse, rows, nowMs, get, submit, database, client } = await start(t)
  const startMs = nowMs - 40 * MINUTE_MS
  await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '10/m', priority: 4 } })
  for (const name of ['ip:203.0.113.7', 'ip:203.0.113.8']) {
    await refuse(name, 600, startMs, { path: '/search' })
    await refuse(name, 300, startMs, { allowed: true, outcome: 'allowed', path: '/login' })
    await refuse(name, 400, startMs, { allowed: true, outcome: 'allowed', path: '/login' })
  }
  const other = { timestampMs: startMs, client: 'user:7', key: 'user:7', path: '/login' }
  await logRows(database, [other, other, other])
  const [row] = await rows()
  const href = unescapeHtml(/href="(rule-form[^"]*)"/.exec(row?.html ?? '')?.[1] ?? '')
  const { headers } = await get(href)
  const form = await get(String(headers.location))
  const query = new URLSearchParams(String(headers.location).split('?')[1])
  assert.deepEqual([query.get('pathPattern'), query.get('rate'), query.get('priority')], ['^/login', '3/m', '1'])
  const text = unescapeHtml(form.text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '))
  assert.match(text, /The rule login already covers this path, with 10\/m\. Change that rule instead/)
  assert.match(form.text, /<a href="rule\.html\?named&#x3D;login">/)
  assert.doesNotMatch(text, /It comes before/)

  const looser = { name: 'login-2', pathPattern: '^/login', rate: '22/m', priority: '5' }
  const warning = /It comes before the rule login, which is stricter with 10\/m: requests that both match get 22\/m\./
  const shown = await get(`rule.html?${new URLSearchParams(looser)}`)
  assert.match(shown.text, warning)
  assert.doesNotMatch((await get(`rule.html?${new URLSearchParams({ ...looser, priority: '3' })}`)).text, warning)
  assert.doesNotMatch((await get(`rule.html?${new URLSearchParams({ ...looser, group: 'team' })}`)).text, warning)
  assert.doesNotMatch((await get(`rule.html?${new URLSearchParams({ ...looser, method: '<b>' })}`)).text, /<b><\/b>/)
  const saved = await submit('rule.html', looser)
  assert.equal(saved.status, 303)
  assert.match((await get('rules.html', saved)).text, warning)
})
