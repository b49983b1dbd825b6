import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type FieldErrors, RuleValidationError } from '../../src/errors.js'
import { spelled } from '../../src/rules/description.js'
import { parseMethods, parseRule, RULES, ruleErrors } from '../../src/rules/rule.js'

const VALID = { name: 'api', pathPattern: '^/api/', rate: '10/m' }

const WRONG: readonly (readonly [field: string, value: unknown, message: RegExp])[] = [
  ['name', '', /1 to 100 printable ASCII/],
  ['name', 'a:b', /without ":"/],
  ['name', 'é', /ASCII/],
  ['name', 'a\nb', /ASCII/],
  ['name', 'x'.repeat(101), /1 to 100/],
  ['name', 7, /must be a text/],
  ['pathPattern', '', /1 to 255/],
  ['pathPattern', 'x'.repeat(256), /1 to 255/],
  ['pathPattern', 'a\0b', /NUL/],
  ['pathPattern', 'a\ud800', /surrogate/],
  ['description', 'a\0b', /NUL/],
  ['description', '\ud800', /surrogate/],
  ['description', 7, /must be a text/],
  ['pathPattern', '[unclosed', /missing closing \]/],
  ['pathPattern', '(?=a)', /uses \(\?= .*linear time/],
  ['pathPattern', '(?!a)', /uses \(\?!/],
  ['pathPattern', '(?<=a)b', /uses \(\?<=/],
  ['pathPattern', '(?<!a)b', /uses \(\?<!/],
  ['pathPattern', '(a)\\1', /uses \\1 .*back-reference/],
  ['pathPattern', '(?>a)', /atomic group.*write \(\?:…\)/],
  ['pathPattern', '^/(?!public)', /negative look-ahead.*two rules.*higher priority/],
  ['pathPattern', '(?<=/v1)/x', /look-behind.*as part of the pattern/],
  ['pathPattern', '(?<a>x)\\k<a>', /back-reference.*spell out/],
  ['pathPattern', '(?P<a>x)(?P=a)', /back-reference.*spell out/],
  ['pathPattern', 'a++', /possessive.*\bwrite \+: RE2 never backtracks/],
  ['pathPattern', 'a{2}+', /possessive/],
  ['pathPattern', 'a\\Z', /uses \\Z .*write \$/],
  ['pathPattern', '(?x)a b', /without blanks/],
  ['pathPattern', '\\u0041', /write \\x\{/],
  ['pathPattern', '(?(1)a|b)', /conditional.*alternatives/],
  ['pathPattern', '(a|b)*a(a|b){200}$', /608 instructions, more than 300.*repeat less/],
  ['pathPattern', '(a{1000}){1000}', /a count is at most 1000/],
  ['block', 'yes', /true or false/],
  ['isActive', 1, /true or false/],
  ['pathPattern', 'a{1001}', /invalid repeat count/],
  ['rate', 'not-a-rate', /Invalid rate "not-a-rate"/],
  ['rate', `${'0'.repeat(9)}1/${'0'.repeat(8)}1s${' '.repeat(40)}`, /Invalid rate/],
  ['rate', null, /must be a text/],
  ['method', 'GRAB', /"GRAB" is no HTTP method/],
  ['method', 'GET,', /"" is no HTTP method/],
  ['method', 'ALL,GET', /"ALL" is no HTTP method/],
  ['key', 'session', /"session" is no key/],
  ['key', 'header:', /is no key/],
  ['key', 'header:X Y', /is no key/],
  ['algorithm', 'magic', /"magic" is no algorithm: give fixed_window, sliding_window, token_bucket, leaky_bucket/],
  ['algorithm', 'TOKEN_BUCKET', /"TOKEN_BUCKET" is no algorithm/],
  ['priority', 1.5, /integer/],
  ['priority', 2_147_483_648, /integer/],
  ['priority', '5', /integer/],
]

function errorsOf(fields: Record<string, unknown>, isNew = true): FieldErrors {
  return ruleErrors(fields, isNew ? 'new' : 'part')
}

describe('a rule', () => {
  for (const [field, value, message] of WRONG) {
    test(`with ${field} ${JSON.stringify(value)?.slice(0, 40)} is refused, on that field alone`, () => {
      const errors = errorsOf({ ...VALID, [field]: value })
      assert.deepEqual(Object.keys(errors), [field])
      assert.match(errors[field] ?? '', message)
    })
  }

  test('reports all wrong fields at once', () => {
    const errors = errorsOf({
      name: 'a:b',
      pathPattern: '(',
      rate: 'x',
      method: 'x',
      key: 'x',
      algorithm: 'x',
      priority: 'x',
    })
    assert.deepEqual(Object.keys(errors).sort(), [
      'algorithm',
      'key',
      'method',
      'name',
      'pathPattern',
      'priority',
      'rate',
    ])
  })

  test('needs a name, a pattern and a rate when it is new, not when it is changed', () => {
    assert.deepEqual(errorsOf({}), { name: 'is required', pathPattern: 'is required', rate: 'is required' })
    assert.deepEqual(errorsOf({}, false), {})
  })

  test('takes the named groups and flags of RE2', () => {
    assert.deepEqual(errorsOf({ ...VALID, pathPattern: '(?i)^/(?P<version>v\\d+)/(?<rest>.*)$' }), {})
  })

  test('keeps its methods in upper case, each once', () => {
    assert.deepEqual(spelled(RULES.fields, { method: 'get, POST,get' }), { method: 'GET,POST' })
    assert.deepEqual(parseMethods('all'), ['ALL'])
  })

  test('read from a row that is wrong is refused', () => {
    const row = { ...VALID, method: 'ALL', key: 'ip', algorithm: 'fixed_window', block: true, priority: 0 }
    assert.throws(() => parseRule({ ...row, rate: 'x' }), RuleValidationError)
  })

  test('read from its row knows its policy and its client', () => {
    const row = {
      ...VALID,
      method: 'GET',
      key: 'header:X-Api-Key',
      algorithm: 'fixed_window',
      block: false,
      priority: 3,
    }
    assert.deepEqual(parseRule(row), {
      name: 'api',
      pathPattern: '^/api/',
      policy: { algorithm: 'fixed_window', limit: 10, periodMs: 60_000 },
      client: { kind: 'header', name: 'x-api-key' },
      block: false,
      priority: 3,
      methods: ['GET'],
    })
  })
})
