import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseCondition } from '../../../src/rules/conditions/condition.js'
import { ConditionFailure } from '../../../src/rules/conditions/failure.js'
import { type GivenFacts, TestFacts } from '../../support/condition-facts.js'

class Account {
  readonly id = 7
  readonly #plan = 'gold'
  get plan(): string {
    return this.#plan
  }
  upgrade(): string {
    return 'gold'
  }
}

const USER = {
  id: 7,
  plan: 'free',
  age: 30,
  score: 1.5,
  huge: 1e300,
  big: 12n,
  isAdmin: false,
  roles: ['editor', 'admin'],
  tags: new Set(['a', 'b']),
  limits: new Map<unknown, unknown>([
    ['day', 10],
    [5, 'five'],
  ]),
  org: { name: 'Acme', none: null },
  since: new Date('2026-01-01T00:00:00Z'),
}
const FACTS: GivenFacts = {
  method: 'POST',
  path: '/api/orders/17',
  route: '/api/orders/:id',
  host: 'api.example.com',
  ip: '10.1.2.3',
  user: USER,
  headers: { 'x-plan': 'gold', accept: 'text/html', 'x-count': '12' },
  query: { page: '3' },
}

/** True, false, or why it fails. */
const CASES: readonly (readonly [text: string, expected: boolean | RegExp])[] = [
  ["user.plan == 'free'", true],
  ['user["plan"] == "free"', true],
  ["user.plan != 'free'", false],
  ["request.headers['x-plan'] == 'gold' && request.method == 'POST'", true],
  ["request.headers.accept == 'text/html'", true],
  ["request['headers']['x-plan'] == 'gold'", true],
  ["request.headers['x-' + 'plan'] == 'gold'", true],
  ["request.query.page == '3' && int(request.query['page']) > 2", true],
  ["request.path == '/api/orders/17' && request.route == '/api/orders/:id'", true],
  ["request.host == 'api.example.com'", true],
  ["inNetwork(client.ip, '10.0.0.0/8')", true],
  ["inNetwork(client.ip, '2001:db8::/32')", false],
  ["inNetwork(client.ip, '10.1.2.3')", true],
  ["inNetwork(request.headers['x-plan'], '10.0.0.0/8')", false],
  ["request.path.matches('^/api/[a-z]+/[0-9]+$')", true],
  ["matches(request.path, 'orders')", true],
  ["request.path.startsWith('/api/') && !request.path.endsWith('/') && request.path.contains('orders')", true],
  ["request.headers['accept'].upperAscii().lowerAscii().trim() == 'text/html'", true],
  // What was not sent reads as an empty text, so that nobody escapes a rule by leaving it out.
  ["request.headers['x-none'] == 'gold'", false],
  ["request.headers['x-none'] != 'gold'", true],
  ["!(request.headers['x-none'] == 'gold')", true],
  ["request.query.none == '' && request.headers['x-' + 'none'] == ''", true],
  ['has(request.headers.accept) && !has(request.headers.none) && has(request.path)', true],
  ["request.headers == {'x-plan': 'gold', 'accept': 'text/html', 'x-count': '12'}", true],
  ["request.headers['x-none'].startsWith('a') || request.query.none.matches('^a')", false],
  ["size(request.headers['x-none']) > 0", false],
  // A field that the user does not have: the condition does not hold, unless another operand decides, and nothing fails.
  ["user.none == 'x'", false],
  ["user.none != 'x' || !(user.none == 'x')", false],
  ["user.none == 'x' || user.plan == 'free'", true],
  ["!(user.none == 'x' && user.plan == 'gold')", true],
  ['user.none == null', false],
  ['user.org.none == null', true],
  ["user.org.nothing.at.all == 'x'", false],
  ['user.none + 1 > 0 || -user.none < 0', false],
  ['user.isNothing', false],
  ['!user.isNothing', false],
  ["(user.none ? 'a' : 'b') == 'b'", false],
  ["(user.plan == 'free' ? user.plan : user.none) == 'free'", true],
  ["user.roles.exists(r, r == 'admin' || user.none == r) && !user.roles.all(r, r == 'admin' && user.none == r)", true],
  ['user.none.exists(x, x == 1) || user.none.all(x, x == 1)', false],
  ["[user.none] == ['x'] || {'a': user.none} == {'a': 1}", false],
  ["user.roles[7] == 'x'", false],
  ['user != null && has(user.plan) && !has(user.none) && has(user.org.name)', true],
  ["'x-plan' in request.headers && !('x-none' in request.headers) && 'page' in request.query", true],
  ["'plan' in user && !('none' in user)", true],
  // Numbers: JavaScript integers are int, others double.
  ['user.age == 30 && user.age + 1 == 31 && user.age / 4 == 7 && user.age % 4 == 2', true],
  ['user.age == 30.0 && user.age > 29.5 && user.score == 1.5 && user.score * 2.0 == 3.0', true],
  ['user.huge > 1.0 && user.big == 12 && -user.age == -30 && -user.score < 0.0', true],
  ['user.score + 1 > 2', /no such overload: double \+ int/],
  ['user.age / 0 == 1', /division by zero/],
  ['user.age + 9223372036854775807 > 0', /integer overflow/],
  ['9223372036854775807 + 1 > 0', /integer overflow/],
  ['1.0 / 0.0 > 1.0', true],
  ["int('12') == 12 && int(2.9) == 2 && double('1.5') == 1.5 && double(2) == 2.0 && string(12) == '12'", true],
  ["bool('true') && string(true) == 'true' && string(1.5) == '1.5'", true],
  ["int('x') == 1", /int\(\) cannot take/],
  ['int(user.huge) == 1', /int\(\) cannot take/],
  ["int(request.headers['x-count']) == 12 && int(request.headers['x-none']) != 12", /int\(\) cannot take/],
  ["user.since < timestamp('2026-06-01T00:00:00Z') && user.since == timestamp(1767225600)", true],
  ["timestamp('gestern') < user.since", /timestamp\(\) cannot take/],
  // Lists and maps.
  ["'admin' in user.roles && !('x' in user.roles) && 'a' in user.tags", true],
  ["user.plan in ['free', 'trial']", true],
  ["user.roles == ['editor', 'admin'] && user.roles[0] == 'editor' && size(user.roles) == 2", true],
  ["user.roles.exists(role, role == 'admin') && user.roles.all(role, size(role) > 4)", true],
  ["user.roles.exists_one(role, role.startsWith('a')) && user.roles.filter(r, r == 'x') == []", true],
  ["user.roles.map(r, r + '!') == ['editor!', 'admin!'] && user.roles.map(r, r == 'admin', size(r)) == [5]", true],
  ["user.roles.filter(r, r != 'x').exists(s, s == 'admin')", true],
  ["request.headers.exists(name, name == 'x-plan') && size(request.query) == 1", true],
  ["user.limits.day == 10 && user.limits[5] == 'five' && {'free': 10, 'pro': 100}[user.plan] == 10", true],
  ['user.orgs.exists(o, has(o.plan))', false],
  ["['é', 'ab'].exists(t, size(t) == 1)", true],
  // Of operands the one that decides wins, wherever it stands.
  ['user.age / 0 == 1 || true', true],
  ['true || user.age / 0 == 1', true],
  ['user.age / 0 == 1 && false', false],
  ['user.age / 0 == 1 && true', /division by zero/],
  ["user.roles.exists(r, r == 'admin' || 1 / 0 == 1)", true],
  ['user.roles.exists(r, 1 / 0 == 1)', /division by zero/],
  ['user.plan > 3', /no such overload: string > int/],
  ['user.age.startsWith("3")', /startsWith\(\) cannot take/],
  ['user.plan.name == "x"', /no fields/],
  ['user.age', /neither true nor false/],
  ['user.age && true', /requires bool operands, got 'int'/],
  ['user.isAdmin == false && !user.isAdmin', true],
  // Several lines and comments.
  ["user.plan == 'free' // tiers\n  && request.method == 'POST'", true],
  // A user of a class has the fields of its getters, and neither methods nor what every object inherits.
  ["user.constructor == 'x' || user.__proto__ == null || user.toString == 'x' || has(user.hasOwnProperty)", false],
]

describe('a condition', () => {
  for (const [text, expected] of CASES) {
    test(`${text} ${typeof expected === 'boolean' ? `is ${expected}` : 'fails'}`, () => {
      const holds = () => parseCondition(text)?.holds(new TestFacts(FACTS))
      if (typeof expected === 'boolean') assert.equal(holds(), expected)
      else assert.throws(holds, (error) => error instanceof ConditionFailure && expected.test(error.message))
    })
  }

  test('that is empty is none', () => {
    assert.equal(parseCondition(''), undefined)
    assert.equal(parseCondition(' \n'), undefined)
  })

  test('knows whether it reads the user', () => {
    assert.equal(parseCondition("user.plan == 'free'")?.readsUser, true)
    assert.equal(parseCondition("request.path == 'user'")?.readsUser, false)
  })

  test('sees no field of a client without a user', () => {
    const holds = (text: string) => parseCondition(text)?.holds(new TestFacts({ user: null }))
    assert.equal(holds("user.plan == 'free'"), false)
    assert.equal(holds('user == null && !has(user.id)'), true)
  })

  test('reads the getters of a class, and neither its methods nor what every object has', () => {
    const holds = (text: string) => parseCondition(text)?.holds(new TestFacts({ user: new Account() }))
    assert.equal(holds("user.plan == 'gold' && user.id == 7"), true)
    assert.equal(holds('has(user.upgrade) || has(user.constructor) || has(user.__proto__) || has(user.valueOf)'), false)
  })
})

const WRONG: readonly (readonly [text: string, message: RegExp])[] = [
  ["user.plan = 'free'", /^at column 11 \(= 'free'\): unexpected character: =: write == to compare$/],
  ["user.plan == 'free' & true", /^at column 21 .*write && for and$/],
  ["user.plan == 'free' | true", /^at column 21 .*write \|\| for or$/],
  ['user.plan == “free”', /^at column 14 .*write ' or " around a text$/],
  ["user.plan == 'free", /^at column 14 .*unterminated string/],
  [
    'user.plan == free',
    /^at column 14 \(free\): "free" is not a known name: write request, client, user, a text in quotes, or one of has/,
  ],
  ['(user.plan', /^at column 11 \(the end\): expected RPAREN/],
  ['true\n  && foo', /^at line 2, column 6 \(foo\)/],
  ['request.path', /is a string, not true or false: compare it/],
  ['size(request.path)', /is an int, not true or false: compare it/],
  ['request == 1', /is not a value: write one of its fields/],
  ["request.body == 'x'", /not a field of request: its fields are method, path, route, host, headers and query/],
  ["request.constructor == 'x'", /not a field of request/],
  ["client.port == '1'", /not a field of client: its fields are ip, country and asn/],
  ["request.headers['X-Plan'] == 'gold'", /write "x-plan"/],
  ["request.query['n'] > 5", /no such overload: string > int: compare values of one type/],
  ['request.method == 5', /no such overload/],
  ['request.path.matches(user.pattern)', /the pattern of matches\(\) is a text in quotes/],
  ["request.path.matches('(?=a)')", /^at column 22 .*look-ahead.*RE2 does not have/],
  ["request.path.matches('(a|b)*a(a|b){200}$')", /instructions/],
  ["inNetwork(client.ip, '10.0.0.0/99')", /0 to 32 after the slash/],
  ['inNetwork(client.ip, user.network)', /a text in quotes, such as '10\.0\.0\.0\/8'/],
  ['user.a.exists(x, user.b.exists(y, x == y))', /^at column 18 .*stands within another macro/],
  ['user.a.map(x, user.b.filter(y, x == y)) == []', /stands within another macro/],
  ["user.a.exists(user, user == 'x')", /give the element another name/],
  ['user.a.exists(x.y, true)', /invalid predicate iteration variable: .*role == 'admin'/],
  ["has(request.headers['x'])", /has\(\) takes a field/],
  ['now() > 1', /now\(\) is not a function of conditions: the functions are has\(\)/],
  ["request.path.split('/') == []", /split\(\) is not a method of conditions/],
  ['type(user.x) == int', /type\(\) is not a function/],
  ['cel.bind(x, 1, x == 1)', /"cel" is not a known name/],
  ['1u == 1u', /not part of conditions/],
  ["b'x' == b'x'", /not part of conditions/],
  ["duration('1s') == duration('1s')", /duration\(\) is not a function/],
  ['user.?plan == 1', /^at column 6/],
  ['request.path && true', /requires bool operands/],
  ['request.path ? true : false', /bool/],
  ['__proto__', /reserved identifier/],
  [`a${'😀'.repeat(12)}`, /^at column 2 \(😀{10}…\): unexpected character: 😀: write && or \|\|/u],
  [`user.plan == 'a${'😀'.repeat(12)}`, /^at column 14 \('a😀{9}…\): unterminated string/u],
]

describe('a wrong condition', () => {
  for (const [text, message] of WRONG) {
    test(`${text.replaceAll('\n', ' ')} is refused, with the place and the remedy`, () => {
      assert.throws(() => parseCondition(text), { message })
    })
  }
})
