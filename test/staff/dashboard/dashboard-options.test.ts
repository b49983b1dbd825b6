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
    /"isStaf" of dashboardPlugin does not exist: give one of staff, isStaff, templates, prefix/,
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
  assert.match(text, /Only staff can see this page/)
  assert.doesNotMatch(text, /<form/)
  assert.deepEqual(
    log.map(({ msg }) => msg),
    ['dashboardPlugin has neither "staff" nor "isStaff": it refuses every request'],
  )
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
