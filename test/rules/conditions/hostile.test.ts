import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { errorMessage } from '../../../src/ground/errors.js'
import { parseCondition } from '../../../src/rules/conditions/condition.js'
import { validateCondition } from '../../../src/rules/field-values.js'
import { MAX_WORK, SHORT_LENGTH } from '../../../src/rules/patterns/work.js'
import { TestFacts } from '../../support/condition-facts.js'
import { long } from '../../support/long.js'

/** More than Node.js takes of one request. */
const LONG = 'a'.repeat(64 * 1024)

function holds(text: string, facts: TestFacts): boolean | undefined {
  return parseCondition(text)?.holds(facts)
}

describe('what an operator may write', () => {
  test('is a thousand characters at most, and compiled only then', () => {
    assert.throws(() => validateCondition('('.repeat(10_000_000)), /at most 1000 characters/)
    assert.throws(() => validateCondition(`true //${'x'.repeat(1_000)}`), /at most 1000 characters/)
    assert.notEqual(validateCondition(`true //${'x'.repeat(993)}`), undefined)
    assert.throws(() => validateCondition('true //\0'), /NUL/)
    assert.throws(() => validateCondition('true //\ud800'), /surrogate/)
    assert.throws(() => validateCondition(5), /must be a text/)
  })

  for (const [name, text] of [
    ['brackets', `${'('.repeat(490)}true${')'.repeat(490)}`],
    ['negations', `${'!'.repeat(990)}true`],
    ['minus signs', `${'-'.repeat(990)}1 == 1`],
    ['lists', `${'['.repeat(490)}${']'.repeat(490)} == []`],
    ['fields', `user${'.a'.repeat(490)} == 1`],
    ['indexes', `user${'[user'.repeat(160)}${']'.repeat(160)} == 1`],
    ['sums', `${'1+'.repeat(490)}1 == 1`],
    ['choices', `${'true?true:'.repeat(99)}true`],
    ['open brackets', '('.repeat(1_000)],
    ['calls', `${'int('.repeat(190)}1${')'.repeat(190)} == 1`],
  ] as const) {
    test(`${name} nest to a depth, and no deeper`, () => {
      assert.throws(
        () => validateCondition(text),
        (error) => {
          return error instanceof Error && /deep|maxDepth/.test(error.message) && !(error instanceof RangeError)
        },
      )
    })
  }

  test('may have a hundred operands in a row', () => {
    assert.equal(holds(`${'true&&'.repeat(150)}true`, new TestFacts()), true)
    assert.equal(holds(`${'false||'.repeat(120)}true`, new TestFacts()), true)
  })

  test('never fails other than with a message, whatever it is', () => {
    const pieces = [
      'user',
      '.a',
      "['x']",
      '(',
      ')',
      '&&',
      '||',
      '!',
      '==',
      "'",
      '"',
      '\\',
      '1',
      '?',
      ':',
      'in',
      '[',
      ']',
    ]
    const more = [
      '{',
      '}',
      ',',
      '.exists(x,',
      '.matches(',
      'has(',
      '\n',
      '//',
      'é',
      '\u{1f600}',
      '-',
      '1.5',
      'r"',
      '"""',
    ]
    let state = 7
    const next = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
      return state % below
    }
    const all = [...pieces, ...more]
    for (let round = 0; round < 5_000; round++) {
      const text = Array.from({ length: 1 + next(12) }, () => all[next(all.length)]).join('')
      try {
        parseCondition(text)?.holds(new TestFacts({ user: { a: 1 } }))
      } catch (error) {
        assert.match(errorMessage(error), /^at (?:line \d+, )?column \d+ |^is neither/, text)
      }
    }
  })
})

describe('what a client may send', () => {
  test('is searched in linear time, whatever is searched for', () => {
    const started = performance.now()
    const text = 'a'.repeat(300_000)
    const part = `b${'a'.repeat(100_000)}`
    assert.equal(holds('user.text.contains(user.part)', new TestFacts({ user: { text, part } })), false)
    assert.equal(
      holds('user.text.contains(user.part)', new TestFacts({ user: { text: `${text}${part}${text}`, part } })),
      true,
    )
    assert.ok(performance.now() - started < 1_000)
  })

  test('is matched in linear time, and no further than a request may cost', () => {
    const started = performance.now()
    const facts = new TestFacts({ headers: { 'x-long': LONG } })
    assert.equal(holds("request.headers['x-long'].matches('^(a+)+$')", facts), true)
    for (const pattern of ['(a|aa)+b', '(a*)*b', '(.*)(.*)(.*)x']) {
      const matches = () =>
        holds(`request.headers['x-long'].matches('${pattern}')`, new TestFacts({ headers: { 'x-long': LONG } }))
      try {
        assert.equal(matches(), false)
      } catch (error) {
        assert.match(errorMessage(error), /too much work/)
      }
    }
    assert.ok(performance.now() - started < 2_000)
  })

  test('costs all conditions of a request together no more than the bound', () => {
    const facts = new TestFacts({ headers: { 'x-long': LONG } })
    const conditions = Array.from({ length: 1_000 }, (_, place) =>
      parseCondition(`request.headers['x-long'].contains('b${place}')`),
    )
    let held = 0
    assert.throws(() => {
      for (const condition of conditions) {
        assert.equal(condition?.holds(facts), false)
        held++
      }
    }, /^TooMuchWork: .* too much work for one request/)
    assert.equal(held, Math.floor(MAX_WORK / LONG.length))
  })

  test(
    'is never too much where texts are short, however many conditions read them, and however large they are',
    long(),
    () => {
      const short = 'ab'.repeat(SHORT_LENGTH / 2)
      const headers = Object.fromEntries(Array.from({ length: 60 }, (_, place) => [`x-${place}`, 'ab']))
      const facts = new TestFacts({ path: short, headers: { ...headers, 'x-short': short } })
      for (let place = 0; place < 2_000; place++) {
        const name = "request.headers['x-short']"
        assert.equal(holds(`${name}.matches('[a-f]{60}${place}') || request.path.contains('${place}')`, facts), false)
        assert.equal(holds(`request.headers.exists(name, request.headers[name] == '${place}')`, facts), false)
      }
    },
  )

  test('decides nothing where it takes too much work, on whatever side of an operator that is', () => {
    const greedy = "request.headers['x-long'].matches('[a-f]{60}x')"
    for (const text of [
      `${greedy} || true`,
      `${greedy} || user.none == 'x'`,
      `true && !(${greedy} && false)`,
      `[1].exists(x, ${greedy} || x == 1)`,
      `${greedy} ? true : true`,
    ]) {
      assert.throws(() => holds(text, new TestFacts({ headers: { 'x-long': LONG } })), /too much work/, text)
    }
  })

  test('adds up in a macro over many elements, however short they are', () => {
    const query = Object.fromEntries(Array.from({ length: 2_000 }, (_, place) => [`p${place}`, 'aaaaaa']))
    const text = "request.query.exists(name, request.query[name].matches('[a-f]{100}[xy]'))"
    assert.throws(() => holds(text, new TestFacts({ query })), /too much work/)
  })

  test('adds up in a macro that fails for many elements, whose errors take long', () => {
    const query = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`p${index}`, '0']))
    const facts = new TestFacts({ query, user: { plan: 'free' } })
    assert.throws(() => holds('request.query.exists(n, 1 / int(request.query[n]) == 1)', facts), /too much work/)
    assert.throws(
      () => holds('request.query.all(n, user.age > 1)', new TestFacts({ query: { a: '1' }, user: { age: 'x' } })),
      /no such overload/,
    )
  })

  test('is no list that many short ones add up to', () => {
    const user = Object.fromEntries(
      Array.from({ length: 40 }, (_, index) => [`l${index}`, Array(64).fill('a'.repeat(99))]),
    )
    const lists = Object.keys(user).map((name) => `user.${name}`)
    const sum = `(${lists.join(' + ')}).exists(t, t.matches('[a-f]{60}x'))`
    assert.throws(() => holds(sum, new TestFacts({ user })), /too much work/)
  })

  test('does not grow: sums of texts and of lists are bounded', () => {
    const sum = Array.from({ length: 40 }, () => 'user.text').join(' + ')
    const user = { text: LONG, list: Array.from({ length: 50_000 }, () => 1) }
    assert.throws(() => holds(`${sum} == 'x'`, new TestFacts({ user })), /too much work/)
    assert.throws(
      () => holds(`size(user.list + user.list + user.list) > 1`, new TestFacts({ user: { list: Array(900_000) } })),
      /too much work/,
    )
    assert.throws(() => holds('user.list.all(x, x == 1 && x == 1 && x == 1)', new TestFacts({ user })), /too much work/)
  })

  test('names of every object are no headers, parameters or fields', () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasownproperty', 'valueof']) {
      const facts = new TestFacts({ user: {}, headers: {}, query: {} })
      for (const of of ['request.headers', 'request.query', 'user']) {
        if (of === 'request.headers' && name !== name.toLowerCase()) continue
        const missing = of === 'user' ? `has(user.${name === '__proto__' ? 'none' : name})` : `${of}['${name}'] != ''`
        assert.equal(holds(missing, facts), false, `${of} ${name}`)
        assert.equal(holds(`user['${name}'] != 'x'`, facts), false, name)
        assert.equal(holds(`'${name}' in ${of}`, facts), false, `${of} ${name}`)
      }
    }
    const parsed = JSON.parse('{ "__proto__": "x", "constructor": "y" }')
    assert.equal(holds("user.__proto__ == 'x' && user.constructor == 'y'", new TestFacts({ user: parsed })), true)
  })
})

describe("what a host's user may be", () => {
  test('fails the condition where a getter throws, and only then', () => {
    const user = {
      get broken(): string {
        throw new Error('no connection')
      },
      plan: 'free',
    }
    assert.throws(() => holds("user.broken == 'x'", new TestFacts({ user })), /no connection/)
    assert.equal(holds("user.plan == 'free'", new TestFacts({ user })), true)
    assert.equal(holds("user.broken == 'x' || user.plan == 'free'", new TestFacts({ user })), true)
    assert.equal(holds("user.plan == 'pro' && user.broken == 'x'", new TestFacts({ user })), false)
    assert.equal(holds("user != null && user.plan == 'free'", new TestFacts({ user })), true)
  })

  test('contains itself without an end', () => {
    const left: unknown[] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    const right: unknown[] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    for (let place = 0; place < 9; place++) {
      left[place] = left
      right[place] = right
    }
    assert.throws(
      () => holds('user.left == user.right', new TestFacts({ user: { left, right } })),
      /deeply|too much work/,
    )
    assert.throws(() => holds('user.left == user.left', new TestFacts({ user: { left } })), /deeply/)
    const parent: Record<string, unknown> = { plan: 'free' }
    Object.assign(parent, { child: { parent } })
    assert.equal(holds("user != null && user.child.parent.plan == 'free'", new TestFacts({ user: parent })), true)
    const [user, other] = [{ parent }, structuredClone({ parent })]
    assert.throws(() => holds('user.user == user.other', new TestFacts({ user: { user, other } })), RangeError)
  })

  test('has functions, symbols and promises that are no values', () => {
    const user = { run: () => 'x', mark: Symbol('x'), later: Promise.resolve('x'), none: undefined }
    const facts = new TestFacts({ user })
    assert.equal(holds("has(user.run) || has(user.mark) || has(user.none) || user.later == 'x'", facts), false)
  })

  test('may be a list, a proxy or have no prototype', () => {
    assert.equal(holds("user[0] == 'x'", new TestFacts({ user: ['x'] })), true)
    assert.equal(
      holds("user.plan == 'x'", new TestFacts({ user: Object.assign(Object.create(null), { plan: 'x' }) })),
      true,
    )
    const proxy = new Proxy(
      {},
      { get: () => 'x', getOwnPropertyDescriptor: () => ({ configurable: true, value: 'x' }) },
    )
    assert.equal(holds("user.plan == 'x'", new TestFacts({ user: proxy })), true)
  })
})
