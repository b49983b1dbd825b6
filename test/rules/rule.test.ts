import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type FieldErrors, RuleValidationError } from '../../src/ground/errors.js'
import { spelled } from '../../src/rules/description.js'
import { parseMethods } from '../../src/rules/field-values.js'
import { parseRule, RULES, ruleErrors } from '../../src/rules/rule.js'

const VALID = { name: 'api', pathPattern: '^/api/', rate: '10/m' }
const ROW = {
  ...VALID,
  method: 'GET',
  condition: '',
  key: 'header:X-Api-Key',
  algorithm: 'fixed_window',
  counts: '401,5xx',
  cost: 2,
  unit: 'requests',
  reserve: 0,
  noticeAt: '80,100',
  block: false,
  refusalStatus: 503,
  refusalMessage: 'wait',
  banAfter: 0,
  banFor: '',
  startsAt: null,
  endsAt: Date.UTC(2030, 0),
  group: 'team',
  priority: 3,
}

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
  ['method', 'GRAB', /"GRAB" is not a valid HTTP method/],
  ['method', 'GET,', /"" is not a valid HTTP method/],
  ['method', 'ALL,GET', /"ALL" is not a valid HTTP method/],
  ['key', 'session', /"session" is not a valid key/],
  ['key', 'header:', /is not a valid key/],
  ['key', 'header:X Y', /is not a valid key/],
  [
    'algorithm',
    'magic',
    /"magic" is not a valid algorithm: give fixed_window, sliding_window, token_bucket, leaky_bucket/,
  ],
  ['algorithm', 'TOKEN_BUCKET', /"TOKEN_BUCKET" is not a valid algorithm/],
  ...['default', 'override', 'deny-list', 'allow-list', 'ceiling', 'path-length', 'route'].map(
    (name) => ['name', name, new RegExp(`^"${name}" is reserved: give another name than default, override, `)] as const,
  ),
  ['name', '/auth/', /^must not begin with "\/"/],
  ['cost', 0, /^must be an integer between 1 and 1000000$/],
  ['cost', 1_000_001, /between 1 and 1000000/],
  ['cost', 1.5, /integer/],
  ['cost', '2', /integer/],
  ['cost', null, /integer/],
  ['cost', 11, /^is 11, more than the rate ever allows: give at most 10, or a rate with a higher count$/],
  [
    'unit',
    'Tokens',
    /^"Tokens" is not a valid unit: give at most 30 of a-z 0-9 - _, beginning with a letter, such as tokens$/,
  ],
  ['unit', '', /not a valid unit/],
  ['unit', '7tokens', /not a valid unit/],
  ['unit', 't'.repeat(31), /not a valid unit/],
  ['unit', 7, /must be a text/],
  ['reserve', -1, /^must be an integer between 0 and 2147483647$/],
  ['reserve', 2_147_483_648, /between 0 and 2147483647/],
  [
    'noticeAt',
    '0',
    /^"0" is not valid: give one to three whole numbers of percent, 1 to 100, that rise, such as 80 or 50,80,100/,
  ],
  ['noticeAt', '101', /1 to 100/],
  ['noticeAt', '80.5', /whole numbers/],
  ['noticeAt', '100,80', /that rise/],
  ['noticeAt', '80,80', /that rise/],
  ['noticeAt', '10,20,30,40', /one to three/],
  ['noticeAt', 80, /^must be a text$/],
  ['reserve', 1, /^is 1, but requests are not charged later: give a cost, or another unit than requests$/],
  ['startsAt', 'tomorrow', /^"tomorrow" is not a valid moment: give a Date, a text such as/],
  ['startsAt', 0, /is not a valid moment/],
  ['endsAt', '2030-02-31T00:00:00Z', /is not a valid moment/],
  ['refusalStatus', 399, /between 400 and 599/],
  ['refusalStatus', 600, /between 400 and 599/],
  ['refusalStatus', '503', /integer/],
  ['refusalMessage', 'x'.repeat(501), /^must be at most 500 characters long$/],
  ['refusalMessage', 'a\0b', /NUL/],
  ['refusalMessage', '\ud800', /surrogate/],
  ['refusalMessage', null, /must be a text/],
  ['banAfter', -1, /between 0 and 2147483647/],
  ['banAfter', 2_147_483_648, /between 0 and 2147483647/],
  ['banAfter', '3', /integer/],
  ['banFor', '2 h', /^"2 h" is not a valid duration: give 30m, 2h or 7d, at most 366d, or an empty text for none$/],
  ['banFor', 'h', /is not a valid duration/],
  ['banFor', '0h', /is not a valid duration/],
  ['banFor', '367d', /is not a valid duration/],
  ['banFor', '1month', /is not a valid duration/],
  ['banFor', 7_200, /must be a text/],
  [
    'group',
    'Team A',
    /^"Team A" is not a valid group: give at most 30 of a-z, 0-9, - and _, not beginning with a digit, or an empty text for/,
  ],
  ['group', '2nd', /^"2nd" is not a valid group/],
  ['group', 'x'.repeat(31), /is not a valid group: give at most 30/],
  ['group', 'a\n', /is not a valid group/],
  ['group', null, /must be a text/],
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

  test('of another unit has a reserve that its rate allows, and neither cost, counted responses nor requests in progress', () => {
    const tokens = { ...VALID, unit: 'tokens' }
    assert.deepEqual(errorsOf({ ...tokens, reserve: 10 }), {})
    assert.deepEqual(errorsOf({ ...tokens, rate: '20/s, 5/m', reserve: 6 }), {
      reserve: 'is 6, more than the rate ever allows: give at most 5, or a rate with a higher count',
    })
    assert.deepEqual(errorsOf({ ...tokens, cost: 2 }), {
      cost: 'is 2, but a limit of tokens takes the reserve of a request: give a reserve, and the cost 1',
    })
    assert.deepEqual(errorsOf({ ...tokens, noticeAt: '80' }), {})
    assert.deepEqual(errorsOf({ ...VALID, algorithm: 'concurrency', noticeAt: '80' }), {
      noticeAt:
        'The algorithm concurrency counts requests in progress, which have no window: leave it empty, or give another algorithm',
    })
    assert.deepEqual(errorsOf({ ...tokens, counts: '5xx' }), {
      counts: 'counts responses, not tokens: give requests, or the unit requests',
    })
    assert.deepEqual(errorsOf({ ...tokens, algorithm: 'concurrency' }), {
      algorithm: 'counts requests in progress, not tokens: give another algorithm, or the unit requests',
    })
  })

  test('may cost what its rate allows, and anything where that is nothing', () => {
    assert.deepEqual(errorsOf({ ...VALID, cost: 10 }), {})
    assert.deepEqual(errorsOf({ ...VALID, rate: '0/m', cost: 1_000_000 }), {})
    assert.deepEqual(errorsOf({ ...VALID, rate: 'often', cost: 11 }), ruleErrors({ rate: 'often' }, 'part'))
    assert.deepEqual(Object.keys(errorsOf({ rate: '5/m', cost: 6 }, false)), ['cost'])
  })

  test('has to end after it starts, whatever the spelling of the two', () => {
    const startsAt = '2030-01-01T01:00:00+01:00'
    for (const endsAt of ['2030-01-01T00:00:00Z', '2029-12-31T00:00:00Z', new Date('2030-01-01T00:00:00Z')]) {
      assert.match(errorsOf({ ...VALID, startsAt, endsAt }).endsAt ?? '', /^is not after startsAt: give a later moment/)
    }
    assert.deepEqual(errorsOf({ ...VALID, startsAt, endsAt: '2030-01-01T00:00:01Z' }), {})
    assert.deepEqual(errorsOf({ ...VALID, startsAt, endsAt: null }), {})
    assert.deepEqual(errorsOf({ ...VALID, startsAt: null, endsAt: new Date(0) }), {})
  })

  test('bans only for a time, and only whom an override can be for', () => {
    const errors = (fields: object) => errorsOf({ ...VALID, ...fields })
    assert.deepEqual(errors({ banAfter: 3, banFor: '15m' }), {})
    assert.deepEqual(errors({ banAfter: 3, banFor: '366d', key: 'user', block: false }), {})
    assert.match(
      errors({ banAfter: 3 }).banFor ?? '',
      /^is empty: give a length such as 15m, 2h or 7d, or a banAfter of 0$/,
    )
    assert.match(
      errors({ banFor: '2h' }).banAfter ?? '',
      /^is 0, which bans nobody: give a number of refusals, or leave/,
    )
    for (const key of ['header:X-Api-Key', 'cookie:sid', 'route', 'all', 'ip+user', 'ip+route']) {
      assert.deepEqual(errors({ banAfter: 3, banFor: '2h', key }), {
        banAfter: 'is 3, but a ban is for an address or a user: give the key ip or user, or 0 for no ban',
      })
    }
    assert.deepEqual(parseRule({ ...ROW, key: 'ip', banAfter: 3, banFor: '2h' }).ban, { after: 3, forMs: 7_200_000 })
  })

  test('read from a row that is wrong is refused', () => {
    const wrong = [
      { rate: 'x' },
      { cost: 11 },
      { startsAt: ROW.endsAt },
      { startsAt: 'soon' },
      { name: 'default' },
      { banFor: '2h' },
    ]
    for (const fields of wrong) assert.throws(() => parseRule({ ...ROW, ...Object(fields) }), RuleValidationError)
  })

  test('read from its row knows its policy and its client', () => {
    assert.deepEqual(parseRule(ROW), {
      name: 'api',
      pathPattern: '^/api/',
      policy: { algorithm: 'fixed_window', limit: 10, periodMs: 60_000 },
      client: { kind: 'header', name: 'x-api-key' },
      counts: { statuses: [401], classes: [5] },
      cost: 2,
      unit: 'requests',
      reserve: 0,
      noticeAt: [80, 100],
      block: false,
      refusal: { statusCode: 503, message: 'wait' },
      ban: null,
      group: 'team',
      priority: 3,
      methods: ['GET'],
      startsAtMs: null,
      endsAtMs: Date.UTC(2030, 0),
      condition: undefined,
    })
  })
})
