import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Fastify from 'fastify'
import { dashboardPlugin } from '../../../src/dashboard.js'
import { InvalidSettingError, rateLimitPlugin } from '../../../src/index.js'
import { startWithStaff } from '../../support/staff-app.js'

const WRONG_OPTIONS: readonly [what: string, options: object, message: RegExp][] = [
  [
    'an unknown option',
    { isStaf: () => true },
    /"isStaf" of dashboardPlugin does not exist\. Did you mean `isStaff`\? Give one of staff, isStaff, templates, prefix/,
  ],
  ['a check that is no function', { isStaff: true }, /"isStaff" is not a function/],
  ['accounts as a plain object', { staff: { alice: 'secret' } }, /"staff" is not what staffAccounts/],
  [
    'two ways to tell who is staff',
    { isStaff: () => true, staff: { accountFor: () => undefined } },
    /"staff" and "isStaff" are both set/,
  ],
  ['templates that are no path', { templates: 7 }, /"templates" is 7: give the path of a folder/],
  [
    'a folder that does not exist',
    { templates: './no-such-folder' },
    /"templates" is ".\/no-such-folder": give a folder that exists/,
  ],
]
for (const [what, options, message] of WRONG_OPTIONS) {
  test(`${what} is refused at start`, async (t) => {
    const app = Fastify()
    t.after(() => app.close())
    await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
    await assert.rejects(
      async () => app.register(dashboardPlugin, options),
      (error) => {
        assert.ok(error instanceof InvalidSettingError)
        assert.match(error.message, message)
        return true
      },
    )
  })
}

test('without rateLimitPlugin the pages cannot be registered', async (t) => {
  const app = Fastify()
  t.after(() => app.close())
  await assert.rejects(
    async () => app.register(dashboardPlugin, {}),
    /The dependency 'fastify-smart-ratelimit' of plugin 'fastify-smart-ratelimit\/dashboard' is not registered/,
  )
})

test('without staff and isStaff every request is refused, and the log says why', async (t) => {
  const { request, log } = await startWithStaff(t, 'sqlite', {})
  const { status, text } = await request('/ops/dashboard/')

  assert.equal(status, 403)
  assert.match(
    text,
    /Only staff can see this page\. dashboardPlugin has neither &quot;staff&quot; nor &quot;isStaff&quot;/,
  )
  assert.doesNotMatch(text, /<form/)
  assert.deepEqual(
    log.map(({ msg }) => msg),
    ['dashboardPlugin has neither "staff" nor "isStaff": it refuses every request'],
  )
})

test('outside of production a refusal says what isStaff answered and where to read, before any parameter is looked at', async (t) => {
  const { NODE_ENV } = process.env
  t.after(() => (NODE_ENV === undefined ? delete process.env.NODE_ENV : Object.assign(process.env, { NODE_ENV })))
  delete process.env.NODE_ENV
  let answer: () => unknown = () => undefined
  // Hosts in JavaScript answer what they like.
  const { request } = await startWithStaff(t, 'sqlite', { isStaff: (() => answer()) as () => boolean })
  const html = { headers: { accept: 'text/html' } }
  for (const [answering, said] of [
    [() => undefined, 'isStaff answered undefined'],
    [() => null, 'isStaff answered null'],
    [() => false, 'isStaff answered false'],
    [async () => false, 'isStaff answered false'],
    [() => 7, 'isStaff answered 7'],
    [() => 'root', 'isStaff failed: It returned &quot;root&quot;, which is not a role: return viewer, operator, admin'],
    [() => ({ id: 7, password: 'secret' }), 'isStaff failed: It returned {}: return true, a role, or an actor of 1'],
    [
      () => {
        throw new TypeError('reading <b>session</b>')
      },
      'isStaff failed: reading &lt;b&gt;session&lt;/b&gt;.',
    ],
    [
      () => Promise.reject(new Error('at postgresql://secret')),
      'isStaff failed: the reason is in the server&#x27;s log.',
    ],
  ] as const) {
    answer = answering
    const { status, text } = await request('/ops/dashboard/?days=abc&days=7', html)
    assert.equal(status, 403)
    assert.ok(text.includes(`Only staff can see this page. ${said}`), `${said}: ${/<p>Only.*/.exec(text)?.[0]}`)
    assert.match(text, /See &quot;In your own app&quot; in the README of fastify-smart-ratelimit\./)
  }
  answer = () => undefined
  const json = await request('/ops/dashboard/offender/')
  assert.equal(json.status, 403)
  assert.match(JSON.parse(json.text).error, /^Only staff can see this page\. isStaff answered undefined: /)

  process.env.NODE_ENV = 'production'
  const { status, text } = await request('/ops/dashboard/offender/?key=ip:203.0.113.7')
  assert.deepEqual([status, JSON.parse(text)], [403, { error: 'Only staff can see this page.' }])
})

test('a folder of templates replaces the files it has, and is given the report as it is', async (t) => {
  const templates = await mkdtemp(join(tmpdir(), 'ratelimit-templates-'))
  t.after(() => rm(templates, { recursive: true, force: true }))
  await writeFile(
    join(templates, 'dashboard.hbs'),
    '{{days}}|{{today.total}}|{{window.block_rate}}|{{#each top_offenders}}{{key}}={{blocked_count}}{{/each}}|{{rule_hits.length}}',
  )
  await writeFile(join(templates, 'style.css'), 'body { color: teal }')
  const { request, statuses } = await startWithStaff(t, 'sqlite', { isStaff: () => true, templates })
  await statuses(4, '/', { from: '203.0.113.7' })

  const { text, headers } = await request('/ops/dashboard/?days=3')
  assert.match(text, /3\|4\|0\.5\|ip:203\.0\.113\.7=2\|0/)
  assert.match(text, /<style>[^<]*--accent:[^<]*\nbody { color: teal }<\/style>/)
  assert.match(String(headers['content-security-policy']), /style-src 'sha256-[^']{44}';/)
})
