/** What decided about a logged request is told as it was then, whatever it is now. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { asActor } from '../../../src/rules/history/actor.js'
import { dateChanges } from '../../support/changes.js'
import { readRows, withoutTimes } from '../../support/client-forms.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const IP = '203.0.113.7'
const HOUR_MS = 3_600_000

async function start(t: TestContext) {
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => true }, { useDynamicRules: true })
  const { client } = started.app.smartRateLimit
  const { database, clock } = started
  /** One for each change, the oldest first. */
  const dateHoursAgo = (...hoursAgo: number[]) =>
    dateChanges(database, ...hoursAgo.map((hours) => clock.now() - hours * HOUR_MS))
  const logged = async (hoursAgo: number, fields: object = {}) => {
    const data = {
      timestamp: new Date(clock.now() - hoursAgo * HOUR_MS),
      key: `rule:login:${IP}`,
      client: `ip:${IP}`,
      path: '/login',
      method: 'POST',
      ruleName: 'login',
      policy: 'login',
      outcome: 'over_limit',
      allowed: false,
      count: 6,
      limit: 5,
      ...fields,
    }
    return String((await client.rateLimitEvent.create({ data })).id)
  }
  const explained = async (event: string, status = 200) => {
    const answer = await started.request(`${DASHBOARD}explain.html?event=${event}`)
    assert.equal(answer.status, status)
    return withoutTimes(answer.text.slice(answer.text.indexOf('<main')))
  }
  return { ...started, client, dateHoursAgo, logged, explained }
}

/** The rows of the table of fields, as readers see them. */
function fieldsOf(html: string): string[] {
  const [, table = ''] = /<table class="then".*?<tbody role="rowgroup">(.*?)<\/tbody>/s.exec(html) ?? []
  return readRows(table)
}

test('the rule is shown as it was then, with what was changed since and by whom, and how it is now', async (t) => {
  const { client, dateHoursAgo, logged, explained } = await start(t)
  const rule = { where: { name: 'login' } }
  await asActor('alice', () =>
    client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '5/m' } }),
  )
  await asActor('bob', () => client.rateLimitRule.update({ ...rule, data: { rate: '50/m' } }))
  await asActor('carol', () => client.rateLimitRule.update({ ...rule, data: { priority: 7 } }))
  await dateHoursAgo(30, 20, 10)

  const page = await explained(await logged(22))
  assert.match(page, /At 2026-01-14 14:00:00 UTC this request was refused: 6 of 5 by login\./)
  assert.match(page, /Rule login, as it was then/)
  assert.deepEqual(fieldsOf(page), [
    'Name login the same',
    'Path pattern ^/login the same',
    'Rate 5/m 50/m',
    'Priority 0 7',
  ])
  assert.match(page, /2026-01-14 16:00:00 UTC.*bob.*changed the rate of rule login from 5\/m to 50\/m.*carol/s)
  assert.doesNotMatch(page, /alice/)
  assert.match(page, /If it were sent now: Decided by login\. The client has used 0, 50 left/)

  const later = await explained(await logged(1, { limit: 50 }))
  assert.match(later, /It has not been changed since\./)
  assert.ok(fieldsOf(later).includes('Rate 50/m'))
  // Servers take a change over a moment later than it is made, and a rate of then has the limit of the event.
  const justBehind = await explained(await logged(20 - 3 / 3_600))
  assert.ok(fieldsOf(justBehind).includes('Rate 5/m 50/m'))
  const strange = await explained(await logged(22, { limit: 9 }))
  assert.match(strange, /The log has a limit of 9, which differs from this rate/)
})

test('every rule that applied beside the deciding one is shown as it was then, and what it did', async (t) => {
  const { client, dateHoursAgo, logged, explained } = await start(t)
  for (const [name, rate] of [
    ['login', '5/m'],
    ['team', '100/m'],
    ['all', '9/m'],
  ] as const) {
    await client.rateLimitRule.create({ data: { name, pathPattern: '^/login', rate } })
  }
  await client.rateLimitRule.update({ where: { name: 'team' }, data: { rate: '200/m' } })
  await dateHoursAgo(30, 30, 30, 10)
  const page = await explained(await logged(22, { rules: '-login:+team:-all:+gone' }))
  assert.match(page, /was refused: 6 of 5 by login\..*Rule login, as it was then/s)
  assert.match(page, /Rule team applied too, and let the request through\..*Rule team, as it was then/s)
  assert.match(page, /Rule all applied too, and refused the request as well\..*Rule all, as it was then/s)
  assert.match(page, /Rule gone applied too, and let .*The history has nothing about rule gone/s)
  assert.equal(page.match(/as it was then<\/h3>/g)?.length, 3)
  assert.match(page, />100\/m<.*>200\/m</s)
  assert.doesNotMatch(page, /The log has a limit of/)
  const code = await explained(await logged(22, { policy: 'default', ruleName: '', rules: '+team:+all' }))
  assert.match(code, /default is a limit in the app’s code.*Rule team applied too.*Rule all applied too/s)
})

test('a rule and an override that are deleted now are shown as they were', async (t) => {
  const { client, dateHoursAgo, logged, explained } = await start(t)
  await client.rateLimitRule.create({ data: { name: 'old', pathPattern: '^/login', rate: '5/m' } })
  await client.rateLimitRule.update({ where: { name: 'old' }, data: { name: 'login' } })
  await client.rateLimitRule.delete({ where: { name: 'login' } })
  const block = await client.rateLimitOverride.create({
    data: { client: 'ip:203.0.113.0/24', effect: 'deny', note: 'scraper' },
  })
  await client.rateLimitOverride.create({ data: { client: `ip:${IP}`, effect: '9/m', pathPattern: '^/other' } })
  await client.rateLimitOverride.create({ data: { client: `ip:${IP}`, effect: '5/m' } })
  await asActor('dave', () => client.rateLimitOverride.delete({ where: { id: block.id } }))
  await dateHoursAgo(30, 29, 10, 30, 30, 30, 5)

  const rule = await explained(await logged(22))
  assert.match(rule, /Rule login, as it was then.*It has been deleted since\./s)
  assert.ok(fieldsOf(rule).includes('Rate 5/m'))
  const denied = await explained(
    await logged(22, { policy: 'override', ruleName: '', outcome: 'denied', count: 1, limit: 0 }),
  )
  assert.match(denied, /was denied by override\./)
  assert.deepEqual(fieldsOf(denied), ['Client ip:203.0.113.0/24', 'Effect deny', 'Note scraper'])
  assert.match(denied, /dave/)
  const limited = await explained(await logged(1, { policy: 'override', ruleName: '' }))
  assert.deepEqual(fieldsOf(limited), ['Client ip:203.0.113.7', 'Effect 5/m'])
})

test('what the history cannot tell is said, and never made up', async (t) => {
  const { client, dateHoursAgo, logged, explained, request } = await start(t)
  assert.match(await explained(await logged(22)), /The history has nothing about rule login/)
  await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '5/m' } })
  await dateHoursAgo(10)
  assert.match(await explained(await logged(22)), /The history has no rule login that was in force at that time/)
  const code = await explained(await logged(22, { policy: 'default', ruleName: '' }))
  assert.match(code, /default is a limit in the app’s code/)
  const override = await explained(await logged(22, { policy: 'override', ruleName: '', outcome: 'denied' }))
  assert.match(override, /The history has nothing about an override for ip:203\.0\.113\.7/)
  for (const gone of ['999999', '0', 'x', "1' OR 1=1", '9'.repeat(30)]) {
    const page = await explained(encodeURIComponent(gone))
    assert.match(page, /The log does not have that event/, gone)
    assert.doesNotMatch(page, /as it was then|If it came now/)
  }
  const hostile = '"><script>alert(1)</script>\u202e'
  const page = await explained(
    await logged(22, { policy: hostile, ruleName: hostile, path: `/${hostile}`, client: `user:${hostile}` }),
  )
  // Fields of the form hold what was typed, escaped.
  assert.doesNotMatch(page.slice(page.indexOf('id="decided"')), /<script|\u202e/)
  const { text } = await request(`${DASHBOARD}explain.html?event=1&path=/other`)
  assert.doesNotMatch(text, /this request|as it was then/)
})

test('a request whose path the log cut within a character is told of, without the limits of now', async (t) => {
  const { logged, explained } = await start(t)
  const path = `/${'%F0%9F%98%80'.repeat(60)}`.slice(0, 500)
  const page = await explained(await logged(1, { path }))
  assert.match(page, /this request was refused/)
  assert.match(page, /role="alert">The log has only the first 500 characters of its path, so the limits/)
  assert.doesNotMatch(page, /the router answers/)
})
