/** What a request with limits of several groups would meet: in code, on the page, through the API and by command. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { dashboardPlugin } from '../../src/dashboard.js'
import type { Explanation } from '../../src/index.js'
import { startWithApi } from '../support/api-app.js'
import { readRows, unescapeHtml } from '../support/client-forms.js'
import { ratelimit } from '../support/scripts.js'
import '../support/compiled-templates.js'

const IP = '203.0.113.7'
const ALICE = { path: '/search', ip: IP, user: { id: 'alice', org: 'acme' } } as const
const FROM_ALICE = { from: IP, headers: { authorization: JSON.stringify(ALICE.user) } }

async function start(t: TestContext) {
  const started = await startWithApi(t, 'sqlite', {
    plugin: {
      user: ({ headers: { authorization } }) => (authorization === undefined ? null : JSON.parse(authorization)),
      middleware: { defaultRate: '9/m', denyList: ['192.0.2.0/24'], skipPaths: ['/health'] },
    },
    routes: (app) => {
      app.get('/search', async () => 'ok')
      app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
    },
  })
  const { rateLimitRule, rateLimitOverride } = started.app.smartRateLimit.client
  for (const data of [
    { name: 'search', group: 'burst', rate: '3/10s', key: 'user', pathPattern: '^/search', priority: 1 },
    { name: 'each', group: 'burst', rate: '5/m', key: 'user' },
    { name: 'acme', group: 'org', rate: '5/h', key: 'user.org', condition: "user.org == 'acme'" },
    { name: 'trial', group: 'org', rate: '2/h', key: 'user.org', condition: "user.plan == 'trial'" },
    { name: 'all', group: 'total', rate: '3/d', key: 'all', block: false },
  ]) {
    await rateLimitRule.create({ data: { pathPattern: '^/', ...data } })
  }
  await rateLimitOverride.create({ data: { client: 'user:fast', effect: '20/m' } })
  await rateLimitOverride.create({ data: { client: 'user:free', effect: 'allow' } })
  return started
}

function shown({ limits }: Explanation): string[] {
  return limits.map(({ policy, group, applies, count, remaining, why }) => {
    const standing = count === null ? '' : ` ${count}+${remaining}`
    return `${applies ? '*' : '-'} ${group}/${policy}${standing}: ${why}`
  })
}

test('each group has the rule that applies, with what is left of it, and why its others do not', async (t) => {
  const { app, statuses } = await start(t)
  const { explain } = app.smartRateLimit
  assert.deepEqual(await statuses(3, '/search', FROM_ALICE), [200, 200, 200])
  const explained = await explain(ALICE)
  assert.equal(explained.decided_by, 'search')
  assert.deepEqual(shown(explained), [
    '- /deny-list: The address is not on the deny list.',
    '- /override: No override in force is for this client and path.',
    '* /default 3+6: No override, rule without a group or prefix decides.',
    '* burst/search 3+0: The rule matches the request.',
    '- burst/each: "search" decides before it in the group.',
    '* org/acme 3+2: The rule matches the request.',
    '- org/trial: The condition is false.',
    '* total/all 3+0: The rule matches the request. It refuses nothing: "block" is false.',
  ])
  for (let again = 0; again < 2; again++) assert.deepEqual(await explain(ALICE), explained, 'nothing was counted')

  const other = await explain({ path: '/', ip: IP, user: 'bob' })
  assert.deepEqual(
    other.limits.filter(({ applies }) => applies).map(({ policy, remaining }) => [policy, remaining]),
    [
      ['default', 6],
      ['each', 5],
      ['all', 0],
    ],
  )
  assert.equal(other.decided_by, 'all', 'it would refuse if it blocked')
})

test('an override sets the rate of the group without a name; what denies, exempts or skips leaves no group to apply', async (t) => {
  const { app } = await start(t)
  const explain = async (its: object) => {
    const explained = await app.smartRateLimit.explain({ path: '/', ip: IP, ...its })
    const applying = explained.limits.filter(({ applies }) => applies).map(({ policy }) => policy)
    const { why } = explained.limits.find(({ policy }) => policy === 'each') ?? {}
    return [explained.decided_by, applying.join(), why]
  }
  assert.deepEqual(await explain({ user: 'fast' }), ['override', 'override,each,all', 'The rule matches the request.'])
  assert.deepEqual(await explain({ ip: '192.0.2.1' }), ['deny-list', 'deny-list', '"deny-list" decides before it.'])
  assert.deepEqual(await explain({ user: 'free' }), ['override', 'override', '"override" decides before it.'])
  assert.deepEqual(await explain({ path: '/health' }), [null, '', 'The path is in skipPaths.'])
})

test('the page, the API and the command say the same', async (t) => {
  const { app, call, request, statuses, database } = await start(t)
  await statuses(3, '/search', FROM_ALICE)
  const api = await call('POST', '/explain', { as: 'viewer', json: ALICE })
  assert.deepEqual(api.json, await app.smartRateLimit.explain(ALICE))

  const fields = new URLSearchParams({ path: '/search', ip: IP, user: 'alice', fields: 'org: acme' })
  const { status, text } = await request(`/ops/dashboard/explain.html?${fields}`)
  assert.equal(status, 200)
  const [, body = ''] = /<tbody role="rowgroup">(.*?)<\/tbody>/s.exec(text) ?? []
  assert.deepEqual(readRows(body).map(unescapeHtml), [
    '1 deny-list No The address is not on the deny list.',
    '2 override No No override in force is for this client and path.',
    '3 default 9/m Applies No override, rule without a group or prefix decides. used 3, 6 left',
    '4 search burst 3/10s Applies The rule matches the request. used 3, 0 left',
    '5 each burst 5/m No "search" decides before it in the group.',
    '6 acme org 5/h Applies The rule matches the request. used 3, 2 left',
    '7 trial org 2/h No The condition is false.',
    '8 all total 3/d Applies The rule matches the request. It refuses nothing: "block" is false. used 3, 0 left',
  ])
  const words =
    'The request has to pass default, search, acme, all. Decided by search. The client has used 3, 0 left: the request is over the limit.'
  assert.ok(text.includes(words))

  const plain = await request(`/ops/dashboard/explain.html?${new URLSearchParams({ path: '/health', ip: IP })}`)
  assert.match(plain.text, /No limit checks this request\./)

  const env = { RATELIMIT_DATABASE_URL: database.url, RATELIMIT_MIDDLEWARE: '{"DEFAULT_RATE":"9/m"}' }
  const args = ['explain', '--schema', database.schema, '--path', '/', '--ip', IP, '--user', 'bob']
  const { stdout } = await ratelimit(args, { env })
  const lines = stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' ').trim())
  assert.match(
    lines[1] ?? '',
    /^Apart from limits in the app's own code: the request has to pass default, each, all\. Decided by /,
  )
  assert.ok(lines.includes('used left rate group limit why'), stdout)
  assert.ok(
    lines.some((line) => /^\* \d+ \d+ 5\/m burst each The rule matches the request\.$/.test(line)),
    stdout,
  )
  assert.ok(lines.includes('2/h org trial The condition is false.'), stdout)
})
