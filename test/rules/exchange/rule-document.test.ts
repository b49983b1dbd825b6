import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { RuleDocumentError } from '../../../src/ground/errors.js'
import { PACKAGE_ROOT } from '../../../src/ground/package-root.js'
import { defaultsFor } from '../../../src/rules/description.js'
import { documentSchema } from '../../../src/rules/exchange/rule-document.js'
import { validateDocument } from '../../../src/rules/exchange/validate-document.js'
import { RULES } from '../../../src/rules/rule.js'

const RULE = { name: 'api', pathPattern: '^/api/', rate: '5/m' }
const OVERRIDE = { client: 'ip:203.0.113.7', effect: 'deny' }

async function errorsOf(document: unknown): Promise<Record<string, string>> {
  try {
    await validateDocument(document, 0)
  } catch (error) {
    assert.ok(error instanceof RuleDocumentError)
    assert.match(error.message, /^Invalid rule document: /)
    return { ...error.errors }
  }
  return assert.fail('nothing was wrong')
}

describe('the document of an export', () => {
  test('has the JSON Schema that ships with the package', () => {
    const shipped = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'rules.schema.json'), 'utf8'))
    assert.deepEqual(shipped, JSON.parse(JSON.stringify(documentSchema())), 'run: npm run rules-schema')
  })

  test('is stored in one spelling, with the defaults of what it leaves out', async () => {
    const { rules, overrides } = await validateDocument(
      {
        version: 1,
        rules: [{ ...RULE, method: 'get, post', description: undefined, endsAt: '2030-01-01T01:00:00+01:00' }],
        overrides: [{ ...OVERRIDE, client: 'ip:::ffff:203.0.113.7', expiresAt: '2030-01-01T01:00:00+01:00' }],
      },
      0,
    )
    assert.deepEqual(rules, [
      { ...defaultsFor(RULES.fields), ...RULE, method: 'GET,POST', endsAt: '2030-01-01T00:00:00.000Z' },
    ])
    assert.deepEqual(overrides, [
      {
        client: 'ip:203.0.113.7',
        effect: 'deny',
        algorithm: 'fixed_window',
        pathPattern: '',
        expiresAt: '2030-01-01T00:00:00.000Z',
        note: '',
      },
    ])
  })

  for (const [what, document, place, message] of [
    ['no object', [RULE], 'document', /^must be an object$/],
    ['nothing', undefined, 'document', /^must be an object$/],
    ['no version', { rules: [] }, 'version', /^is missing: give 1$/],
    ['another version', { version: 2, rulez: [] }, 'version', /^is 2: this version of the package reads 1$/],
    ['a version that is a text', { version: '1', rules: [] }, 'version', /^is "1": /],
    ['no list', { version: 1 }, 'rules', /^is missing: give "rules", "overrides" or both/],
    ['a list that is none', { version: 1, rules: {} }, 'rules', /^must be a list$/],
    ['null for a list', { version: 1, overrides: null }, 'overrides', /^must be a list$/],
    ['an unknown field', { version: 1, rules: [], rule: [] }, 'rule', /^does not exist: give one of /],
    ['a schema that is no text', { version: 1, rules: [], $schema: 7 }, '$schema', /^must be a text$/],
    ['an entry that is no object', { version: 1, rules: ['api'] }, 'rules[0]', /^must be an object$/],
    [
      'an unknown field of a rule',
      { version: 1, rules: [{ ...RULE, path: '/' }] },
      'rules[0].path',
      /give one of name,/,
    ],
    ['an id', { version: 1, rules: [{ ...RULE, id: 7 }] }, 'rules[0].id', /^does not exist/],
    ['a flag in words', { version: 1, rules: [{ ...RULE, block: 'no' }] }, 'rules[0].block', /true or false/],
    ['null for a default', { version: 1, rules: [{ ...RULE, method: null }] }, 'rules[0].method', /must be a text/],
    [
      'a prototype',
      { version: 1, rules: [JSON.parse('{"__proto__": {"name": "x"}}')] },
      'rules[0].__proto__',
      /^does not exist/,
    ],
    [
      'a name twice',
      { version: 1, rules: [RULE, RULE] },
      'rules[1]',
      /^is the same rule as rules\[0\]: \{"name":"api"\}$/,
    ],
    [
      'a client twice, in two spellings',
      { version: 1, overrides: [OVERRIDE, { ...OVERRIDE, client: 'ip:203.0.113.7/32' }] },
      'overrides[1]',
      /^is the same override as overrides\[0\]/,
    ],
    [
      'a cost that no request can pay',
      { version: 1, rules: [{ ...RULE, cost: 6 }] },
      'rules[0].cost',
      /^is 6, more than the rate ever allows: give at most 5/,
    ],
    [
      'an end before the start',
      { version: 1, rules: [{ ...RULE, startsAt: '2030-01-02T00:00:00Z', endsAt: '2030-01-01T00:00:00Z' }] },
      'rules[0].endsAt',
      /^is not after startsAt/,
    ],
    [
      'an expiry without its time zone',
      { version: 1, overrides: [{ ...OVERRIDE, expiresAt: '2030-01-01T00:00:00' }] },
      'overrides[0].expiresAt',
      /^"2030-01-01T00:00:00" is not a valid moment/,
    ],
    [
      'an expiry on a day that does not exist',
      { version: 1, overrides: [{ ...OVERRIDE, expiresAt: '2030-02-31T00:00:00Z' }] },
      'overrides[0].expiresAt',
      /2030-02-31/,
    ],
  ] as const) {
    test(`is refused with ${what}`, async () => {
      const errors = await errorsOf(document)
      assert.match(errors[place] ?? `no complaint about ${place}: ${JSON.stringify(errors)}`, message)
    })
  }

  test('is refused with all its errors at once, and their places', async () => {
    const errors = await errorsOf({
      version: 1,
      rules: [RULE, { name: 'a:b', pathPattern: '(?=a)', rate: 'often', extra: 1 }, { name: 'c' }],
      overrides: [{ client: 'ip:nowhere', effect: 'maybe' }],
    })
    assert.deepEqual(Object.keys(errors), [
      'rules[1].name',
      'rules[1].pathPattern',
      'rules[1].rate',
      'rules[1].extra',
      'rules[2].pathPattern',
      'rules[2].rate',
      'overrides[0].client',
      'overrides[0].effect',
    ])
  })

  test('has a message of bearable length, however much is wrong', async () => {
    const rules = Array.from({ length: 500 }, () => ({}))
    await assert.rejects(validateDocument({ version: 1, rules }, 0), (error: RuleDocumentError) => {
      assert.ok(error.message.length < 1_000)
      assert.match(error.message, /; and 93 more$/)
      return Object.keys(error.errors).length === 103
    })
  })

  test('is refused in few words that have the remedy, whatever its texts and names are', async () => {
    const text = 'x'.repeat(60_000)
    const names = Object.keys(RULES.fields)
    const rule = Object.fromEntries([...names, text].map((name) => [name, text]))
    const errors = await errorsOf({ version: 1, rules: [rule] })
    assert.match(errors['rules[0].startsAt'] ?? '', /^"x{100,}….*is not a valid moment: give a Date, a text/)
    assert.ok(Object.keys(errors).length > 15)
    assert.ok(JSON.stringify(errors).length < 20_000, `${JSON.stringify(errors).length} characters`)
  })

  test('is not looked at to its end where a hundred places are wrong', async () => {
    const errors = await errorsOf({ version: 1, rules: Array(1_000_000).fill({}), overrides: [{}] })
    // Three for every rule, and one for either list.
    assert.equal(Object.keys(errors).length, 104)
    assert.match(errors.rules ?? '', /^has more than 100 errors: rules\[34\] and later entries were not validated$/)
    assert.match(errors.overrides ?? '', /overrides\[0\] and/)
  })

  test('names the first hundred unknown fields of an object that has more', async () => {
    const fields = Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`k${index}`, index]))
    const ofRule = await errorsOf({ version: 1, rules: [{ ...RULE, ...fields }] })
    assert.equal(Object.keys(ofRule).length, 101)
    assert.match(ofRule['rules[0].k99'] ?? '', /^does not exist/)
    assert.equal(ofRule['rules[0]'], 'has more fields that do not exist')
    const ofDocument = await errorsOf({ version: 1, rules: [], ...fields })
    assert.equal(Object.keys(ofDocument).length, 101)
    assert.equal(ofDocument.document, 'has more fields that do not exist')
  })
})

test('an override of a document ends after its duration, from the import on, and has no expiry besides', async () => {
  const override = { client: '203.0.113.7', effect: 'deny', for: '2 hours' }
  const { overrides } = await validateDocument({ version: 1, overrides: [override] }, Date.UTC(2030, 0, 1))
  assert.deepEqual(overrides?.[0], {
    client: 'ip:203.0.113.7',
    effect: 'deny',
    algorithm: 'fixed_window',
    pathPattern: '',
    expiresAt: '2030-01-01T02:00:00.000Z',
    note: '',
  })
  for (const [wrong, message] of [
    [{ ...override, expiresAt: '2030-01-01T00:00:00Z' }, 'is given with "expiresAt": give one of them'],
    [{ ...override, for: 'soon' }, '"soon" is not a valid duration: give 30m, 2h or 7d, at most 366d'],
  ] as const) {
    await assert.rejects(validateDocument({ version: 1, overrides: [wrong] }, 0), (error: RuleDocumentError) => {
      assert.deepEqual(error.errors, { 'overrides[0].for': message })
      return true
    })
  }
})
