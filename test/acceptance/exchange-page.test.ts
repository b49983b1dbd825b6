/** The page that exports and imports rules and overrides, as a browser without JavaScript uses it. */
import assert from 'node:assert/strict'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { test } from 'node:test'
import { long } from '../support/long.js'
import { openForms } from '../support/staff-forms.js'

const PAGE = 'exchange.html'

function documentOf(lists: object): string {
  return JSON.stringify({ version: 1, ...lists })
}

/** Returns the hidden field of what a page has shown. */
function versionOf(html: string): string {
  return /name="version" value="([^"]*)"/.exec(html)?.[1] ?? ''
}

/** Returns what would be done, and to how many rows. */
function groupsOf(html: string): string[] {
  return [...html.matchAll(/<h3>([^<]*)<\/h3>/g)].map(([, title = '']) => title)
}

test('a document is compared first, then exactly what was shown is imported, with the actor in the history', async (t) => {
  const { open, get, app } = await openForms(t, 'sqlite')
  const { client, rules } = app.smartRateLimit
  await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/login', rate: '5/m' } })
  await client.rateLimitRule.create({ data: { name: 'old', pathPattern: '^/old', rate: '5/m' } })
  const document = documentOf({
    rules: [
      { name: 'login', pathPattern: '^/login', rate: '10/m', startsAt: '2026-02-01T00:00:00Z' },
      { name: 'new', pathPattern: '^/new', rate: '7/m' },
    ],
    overrides: [{ client: 'ip:203.0.113.7', effect: 'deny' }],
  })
  const page = await open(PAGE)
  const compared = await page.submit({ document })
  assert.equal(compared.status, 200)
  assert.match(compared.text, /2 created, 1 changed, 1 deleted, 0 unchanged/)
  assert.deepEqual(groupsOf(compared.text), [
    'Rules that would be created: 1',
    'Rules that would be changed: 1',
    'Rules that would be deleted: 1',
    'Overrides and bans that would be created: 1',
  ])
  assert.match(compared.text, /<bdi class="code">5\/m<\/bdi><\/td><td><bdi class="code">10\/m</)
  assert.match(compared.text, />none<\/bdi><\/td><td><bdi class="code"><time datetime="2026-02-01T00:00:00Z">/)
  assert.equal((await rules.export()).rules.length, 2)

  const imported = await page.submit({ document, do: 'import', version: versionOf(compared.text) })
  assert.deepEqual([imported.status, imported.headers.location], [303, PAGE])
  assert.match((await get(PAGE, imported)).text, /Imported: 2 created, 1 changed, 1 deleted, 0 unchanged\./)
  const stored = await rules.export()
  assert.deepEqual(
    [stored.rules.map(({ name, rate }) => `${name} ${rate}`), stored.overrides.length],
    [['login 10/m', 'new 7/m'], 1],
  )
  const changes = (await rules.history()).filter(({ source }) => source === 'import')
  assert.deepEqual(changes.map(({ name, actor }) => `${name} ${actor}`).toSorted(), [
    'ip:203.0.113.7 alice',
    'login alice',
    'new alice',
    'old alice',
  ])
})

test('a change by somebody else, or another document, stops the import and shows the new difference', async (t) => {
  const { open, app } = await openForms(t, 'sqlite')
  const { client, rules } = app.smartRateLimit
  const document = documentOf({ rules: [{ name: 'new', pathPattern: '^/new', rate: '7/m' }] })
  const page = await open(PAGE)
  const version = versionOf((await page.submit({ document })).text)
  const names = async () => (await rules.export()).rules.map(({ name }) => name)

  for (const fields of [
    { document: document.replace('7/m', '8/m'), version },
    { document, version, keep: 'true' },
    { document, version: '' },
    { document, version: '99.x' },
  ]) {
    const refused = await page.submit({ ...fields, do: 'import' })
    assert.equal(refused.status, 400)
    assert.match(refused.text, /this is not the document that was compared/)
  }
  assert.deepEqual(await names(), [])

  await client.rateLimitRule.create({ data: { name: 'bob', pathPattern: '^/bob', rate: '5/m' } })
  const overtaken = await page.submit({ document, version, do: 'import' })
  assert.equal(overtaken.status, 400)
  assert.match(overtaken.text, /Nothing was imported: rules or overrides were changed since/)
  assert.ok(groupsOf(overtaken.text).includes('Rules that would be deleted: 1'))
  assert.deepEqual(await names(), ['bob'])

  const kept = await page.submit({ document, keep: 'true' })
  assert.deepEqual(groupsOf(kept.text), ['Rules that would be created: 1'])
  const imported = await page.submit({ document, keep: 'true', version: versionOf(kept.text), do: 'import' })
  assert.equal(imported.status, 303)
  assert.deepEqual((await names()).toSorted(), ['bob', 'new'])
})

test('errors name the row and the field, hostile texts stay texts, and what was pasted stays', async (t) => {
  const { open, app } = await openForms(t, 'sqlite')
  const page = await open(PAGE)
  const wrong = await page.submit({
    document: documentOf({
      rules: [{ name: '</textarea><b>\u202ex', pathPattern: '^/', rate: 'often' }],
      overrides: [{ client: 'ip:203.0.113.7', effect: 'deny', colour: 'red' }],
    }),
  })
  assert.equal(wrong.status, 400)
  assert.match(wrong.text, /<span class="code">rules\[0\]\.rate<\/span> of <bdi class="code">&lt;\/textarea&gt;/)
  assert.match(wrong.text, /<span class="code">overrides\[0\]\.colour<\/span> of <bdi class="code">ip:203/)
  assert.match(wrong.text, /aria-invalid="true"[\s\S]*"rate":"often"/)
  assert.doesNotMatch(wrong.text, /<b>\u202e|<\/textarea><b>/)
  for (const [document, message] of [
    ['', /There is no document/],
    ['{"version": 1,\n oops', /The document is not valid JSON: [\s\S]*oops/],
    ['[1]', /must be an object/],
  ] as const) {
    const refused = await page.submit({ document, do: 'import' })
    assert.equal(refused.status, 400)
    assert.match(refused.text, message)
  }
  const { length } = (await app.smartRateLimit.rules.export()).rules
  assert.equal(length, 0)
})

test('viewers download and compare; operators import overrides; only admins import rules', async (t) => {
  const overrides = documentOf({ overrides: [{ client: 'ip:203.0.113.7', effect: 'deny' }] })
  const rules = documentOf({ rules: [] })
  for (const [role, allowed] of [
    ['viewer', []],
    ['operator', [overrides]],
    ['admin', [overrides, rules]],
  ] as const) {
    const { open, get, app } = await openForms(t, 'sqlite', role)
    await app.smartRateLimit.client.rateLimitRule.create({ data: { name: 'a', pathPattern: '^/a', rate: '5/m' } })
    const downloaded = await get('export.json')
    assert.match(String(downloaded.headers['content-disposition']), /attachment; filename="ratelimit-rules\.json"/)
    assert.deepEqual(JSON.parse(downloaded.text), JSON.parse(JSON.stringify(await app.smartRateLimit.rules.export())))
    const page = await open(PAGE)
    for (const document of [overrides, rules]) {
      const compared = await page.submit({ document })
      const mayImport = allowed.some((its) => its === document)
      assert.deepEqual([compared.status, compared.text.includes('value="import"')], [200, mayImport], role)
      const sent = await page.submit({ document, version: versionOf(compared.text), do: 'import' })
      assert.equal(sent.status, mayImport ? 303 : 403)
    }
    const forged = await page.submit({ document: rules, token: 'x' })
    assert.equal(forged.status, 403)
    const stored = await app.smartRateLimit.rules.export()
    assert.deepEqual(
      [stored.rules.length, stored.overrides.length],
      [role === 'admin' ? 0 : 1, role === 'viewer' ? 0 : 1],
    )
  }
})

test(
  'a thousand rules and ten thousand overrides are compared and imported; a form that is too large is 413',
  long(),
  async (t) => {
    const { open, app } = await openForms(t, 'sqlite')
    const document = documentOf({
      rules: Array.from({ length: 1_000 }, (_, index) => ({
        name: `r${index}`,
        pathPattern: `^/p${index}`,
        rate: '5/m',
      })),
      overrides: Array.from({ length: 10_000 }, (_, index) => ({
        client: `ip:10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`,
        effect: 'deny',
      })),
    })
    const page = await open(PAGE)
    const held = monitorEventLoopDelay({ resolution: 1 })
    held.enable()
    const compared = await page.submit({ document })
    held.disable()
    t.diagnostic(`${document.length} characters, the event loop was held for ${Math.round(held.max / 1e6)} ms at most`)
    assert.equal(compared.status, 200)
    assert.match(compared.text, /11,000 created, 0 changed/)
    assert.match(compared.text, /And 950 more[\s\S]*And 9,950 more/)
    const sent = await page.submit({ document, version: versionOf(compared.text), do: 'import' })
    assert.equal(sent.status, 303)
    const stored = await app.smartRateLimit.rules.export()
    assert.deepEqual([stored.rules.length, stored.overrides.length], [1_000, 10_000])

    const tooLarge = await page.submit({ document: 'x'.repeat(33 * 1024 * 1024) })
    assert.equal(tooLarge.status, 413)
    assert.match(tooLarge.text, /The document is too large[\s\S]*ratelimit rules import/)
  },
)
