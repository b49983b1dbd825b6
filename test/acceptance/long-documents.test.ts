/** Documents of megabytes, which whoever may read can have compared. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startWithApi } from '../support/api-app.js'
import { long } from '../support/long.js'
import { openForms } from '../support/staff-forms.js'

const PAGE = 'exchange.html'
const NESTED = '['.repeat(2_000_000) + ']'.repeat(2_000_000)
const UNKNOWN = `{"version":1,${Array.from({ length: 300_000 }, (_, index) => `"k${index}":1`).join()}}`
const WRONG = JSON.stringify({
  version: 1,
  rules: Array.from({ length: 5_000 }, () => ({ ['k'.repeat(500)]: 1, rate: 'x'.repeat(500) })),
})
const NOT_JSON = `{"version":1,"rules":[${'{},'.repeat(200_000)}oops]}`
const CASES = [
  [NESTED, /must be an object/],
  [UNKNOWN, /has more than 200 fields/],
  [WRONG, /rules has more than 100 errors|and at least \d+ more/],
  [NOT_JSON, /not valid JSON/],
] as const

/** Signs that a browser would read as something else, and characters that the end of a piece may divide. */
const NOTE = '</textarea>&amp;<b>é€😀'

function longDocument(): string {
  const overrides = Array.from({ length: 10_000 }, (_, index) => ({
    client: `ip:10.1.${index >> 8}.${index & 255}`,
    effect: 'deny',
    note: `${NOTE}${'x'.repeat(index % 7)}`,
  }))
  return JSON.stringify({ version: 1, overrides })
}

test('the API answers a document that exceeds a bound with the bound, and in few words', async (t) => {
  const { call } = await startWithApi(t, 'sqlite')
  for (const [body, message] of CASES) {
    const { status, text, json } = await call('POST', '/import?dryRun=true', { as: 'viewer', body })
    assert.equal(status, 400)
    assert.match(json.detail, message)
    assert.ok(text.length < 100_000, `${text.length} characters`)
  }
  const { json } = await call('POST', '/import?dryRun=true', { as: 'viewer', body: NOT_JSON })
  assert.equal(json.code, 'FST_ERR_CTP_INVALID_JSON_BODY')
})

test('the API sends the whole difference of a long document', long(), async (t) => {
  const { call, app } = await startWithApi(t, 'sqlite')
  const body = longDocument()
  const expected = await app.smartRateLimit.rules.import(JSON.parse(body), { dryRun: true })
  assert.equal(expected.overrides.created.length, 10_000)
  const compared = await call('POST', '/import?dryRun=true', { as: 'viewer', body })
  assert.deepEqual(compared.json, JSON.parse(JSON.stringify(expected)))
  const imported = await call('POST', '/import', { as: 'admin', body })
  assert.deepEqual(imported.json, { ...compared.json, applied: true })
  const again = await call('POST', '/import', { as: 'admin', body })
  assert.deepEqual(again.json.overrides, { created: [], updated: [], deleted: [], unchanged: 10_000 })
})

test('the page sends no long text back, but the document that it has compared', long(), async (t) => {
  const { open, app } = await openForms(t, 'sqlite')
  const page = await open(PAGE)
  for (const [document, message] of [...CASES, ['<'.repeat(4_000_000), /must be an object/]] as const) {
    const { status, text } = await page.submit({ document })
    assert.equal(status, 400)
    assert.match(text, document === WRONG ? /has more than 100 errors/ : message)
    assert.match(text, /The document is too long to be shown again/)
    assert.ok(text.length < 200_000, `${text.length} characters`)
  }
  const document = longDocument()
  const { status, text } = await page.submit({ document })
  assert.equal(status, 200)
  const [, shown = ''] = /<textarea[^>]*>\n([^<]*)<\/textarea>/.exec(text) ?? []
  assert.equal(shown.replaceAll('&lt;', '<').replaceAll('&amp;', '&'), document)
  const [, version = ''] = /name="version" value="([^"]*)"/.exec(text) ?? []
  assert.equal((await page.submit({ document, version, do: 'import' })).status, 303)
  const { overrides } = await app.smartRateLimit.rules.export()
  assert.deepEqual([overrides.length, overrides[0]?.note.startsWith(NOTE)], [10_000, true])
})
