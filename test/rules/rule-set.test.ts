import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseCandidate } from '../../src/reports/preview/preview.js'
import type { PathOptions } from '../../src/rules/patterns/path-patterns.js'
import type { RuleCandidate } from '../../src/rules/rule.js'
import { RuleSet } from '../../src/rules/rule-set.js'
import { fc } from '../support/properties.js'

const AS_WRITTEN: PathOptions = { caseSensitive: true, ignoreTrailingSlash: false }

function rule(name: string, pathPattern: string, fields: Partial<RuleCandidate> = {}) {
  return parseCandidate({ name, pathPattern, rate: '1/m', ...fields })
}

describe('a rule set', () => {
  test('searches the pattern, it need not match the whole path', () => {
    const set = new RuleSet([rule('a', 'b+c')], AS_WRITTEN)
    assert.equal(set.match('/abbbcd', 'GET', 0)?.name, 'a')
    assert.equal(set.match('/abd', 'GET', 0), undefined)
  })

  test('tries rules by priority, highest first, then by name', () => {
    const set = new RuleSet(
      [rule('b', '^/x'), rule('a', '^/x'), rule('low', '^/', { priority: -1 }), rule('high', '^/x/y', { priority: 9 })],
      AS_WRITTEN,
    )
    assert.deepEqual(
      set.rules.map(({ name }) => name),
      ['high', 'a', 'b', 'low'],
    )
    assert.equal(set.match('/x/y', 'GET', 0)?.name, 'high')
    assert.equal(set.match('/x', 'GET', 0)?.name, 'a')
    assert.equal(set.match('/other', 'GET', 0)?.name, 'low')
  })

  test('goes on to the next rule when the method is another', () => {
    const set = new RuleSet(
      [rule('writes', '^/api/', { method: 'POST,PUT', priority: 1 }), rule('all', '^/api/')],
      AS_WRITTEN,
    )
    assert.equal(set.match('/api/x', 'PUT', 0)?.name, 'writes')
    assert.equal(set.match('/api/x', 'GET', 0)?.name, 'all')
  })

  test('has a rule in force from its start until before its end, whenever it is asked', () => {
    const set = new RuleSet(
      [
        rule('sale', '^/shop', { startsAt: new Date(1_000), endsAt: new Date(2_000), priority: 9 }),
        rule('night', '^/shop', { startsAt: new Date(1_500), priority: 5 }),
        rule('old', '^/shop', { endsAt: new Date(500), priority: 1 }),
        rule('usual', '^/'),
      ],
      AS_WRITTEN,
    )
    const firsts: readonly (readonly [nowMs: number, name: string])[] = [
      [0, 'old'],
      [499, 'old'],
      [500, 'usual'],
      [999, 'usual'],
      [1_000, 'sale'],
      [1_500, 'sale'],
      [1_999, 'sale'],
      [2_000, 'night'],
      [Number.MAX_SAFE_INTEGER, 'night'],
    ]
    // Back in time too: requests that waited, and a clock that was set back.
    for (const [nowMs, name] of [...firsts, ...firsts.toReversed()]) {
      assert.equal(set.match('/shop', 'GET', nowMs)?.name, name, `${nowMs}`)
      assert.equal(set.match(`/shop/${'x'.repeat(1_000)}`, 'GET', nowMs)?.name, name, `${nowMs}, a long path`)
      assert.equal(set.match('/', 'GET', nowMs)?.name, 'usual')
    }
    assert.deepEqual(
      [0, 1_000, 1_500, 2_000].map((nowMs) => set.inForce(nowMs).map(({ name }) => name)),
      [
        ['old', 'usual'],
        ['sale', 'usual'],
        ['sale', 'night', 'usual'],
        ['night', 'usual'],
      ],
    )
  })

  test('agrees at any moment with its rules asked one by one', () => {
    const moment = fc.option(fc.integer({ min: 0, max: 20 }).map((ms) => new Date(ms)))
    const timedRules = fc.array(
      fc.record({ startsAt: moment, endsAt: moment, priority: fc.nat(3) }).filter(({ startsAt, endsAt }) => {
        return startsAt === null || endsAt === null || endsAt > startsAt
      }),
      { maxLength: 8 },
    )
    fc.assert(
      fc.property(timedRules, fc.array(fc.integer({ min: -1, max: 21 }), { maxLength: 20 }), (fields, moments) => {
        const rules = fields.map((times, place) => rule(`rule ${place}`, place % 2 === 0 ? '^/' : '^/x', times))
        const set = new RuleSet(rules, AS_WRITTEN)
        for (const nowMs of moments) {
          for (const path of ['/', '/x']) {
            const first = set.rules.find(({ pathPattern, startsAtMs, endsAtMs }) => {
              const isInTime = nowMs >= (startsAtMs ?? nowMs) && nowMs < (endsAtMs ?? nowMs + 1)
              return isInTime && (pathPattern === '^/' || path === '/x')
            })
            assert.equal(set.match(path, 'GET', nowMs), first)
          }
        }
      }),
    )
  })

  test('lists the rules that may decide: those with a condition, up to the first without one', () => {
    const condition = 'true'
    const rules = [
      rule('first', '^/x', { condition, priority: 5 }),
      rule('other-path', '^/y', { condition, priority: 4 }),
      rule('other-method', '^/x', { condition, method: 'POST', priority: 3 }),
      rule('second', '/x', { condition, priority: 2 }),
      rule('last', '^/', { priority: 1 }),
      rule('never', '^/x', { condition }),
    ]
    const set = new RuleSet(rules, { caseSensitive: true, ignoreTrailingSlash: true })
    const names = (path: string, method = 'GET') => set.candidates(path, method, 0)?.map(({ name }) => name)
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(names('/x'), ['first', 'second', 'last'])
      assert.deepEqual(names('/x', 'POST'), ['first', 'other-method', 'second', 'last'])
      assert.deepEqual(names('/y/x/'), ['other-path', 'second', 'last'])
      assert.deepEqual(names('/z'), ['last'])
    }
    assert.equal(set.match('/x', 'GET', 0)?.name, 'first')
    assert.deepEqual(names(`/x${'/long'.repeat(100)}`), ['first', 'second', 'last'])
  })

  test('covers HEAD with a rule for GET, not GET with one for HEAD', () => {
    const set = new RuleSet(
      [rule('get', '^/g', { method: 'GET' }), rule('head', '^/h', { method: 'HEAD' })],
      AS_WRITTEN,
    )
    assert.equal(set.match('/g', 'HEAD', 0)?.name, 'get')
    assert.equal(set.match('/h', 'GET', 0), undefined)
  })

  test('follows a router that ignores case or a slash at the end', () => {
    const rules = [rule('exact', '^/Early$')]
    assert.equal(new RuleSet(rules, AS_WRITTEN).match('/early', 'GET', 0), undefined)
    const lenient = new RuleSet(rules, { caseSensitive: false, ignoreTrailingSlash: true })
    for (const path of ['/early', '/EARLY/', '/Early']) assert.equal(lenient.match(path, 'GET', 0)?.name, 'exact', path)
    const below = new RuleSet([rule('below', '^/early/')], { caseSensitive: true, ignoreTrailingSlash: true })
    assert.equal(below.match('/early', 'GET', 0)?.name, 'below')
  })

  test('takes İ for what it is in lower case where a router ignores case, but in a class and where a router does not', () => {
    const lenient = { caseSensitive: false, ignoreTrailingSlash: false }
    const found = (pathPattern: string, path: string, options = lenient) =>
      new RuleSet([rule('a', pathPattern)], options).match(path, 'GET', 0) !== undefined
    const inLowerCase = 'İ'.toLowerCase()
    for (const pattern of ['^/İ$', '^/\\Qİ\\E$', '^/(İ|x)$', '^/[[:digit:]İ-ı]?İ$']) {
      assert.equal(found(pattern, `/${inLowerCase}`), true, pattern)
    }
    assert.equal(found('^/[Ā-ı]$', '/ı'), true)
    assert.equal(found('^/İ$', '/İ', AS_WRITTEN), true)
    assert.equal(found('^/İ$', `/${inLowerCase}`, AS_WRITTEN), false)
  })

  test('of no rules matches nothing', () => assert.equal(new RuleSet([], AS_WRITTEN).match('/', 'GET', 0), undefined))

  test('stays linear where a backtracking matcher would not', () => {
    const set = new RuleSet([rule('evil', '^/(a+)+$'), rule('evil2', '(x+x+)+y')], AS_WRITTEN)
    assert.equal(set.match(`/${'a'.repeat(10_000)}!`, 'GET', 0), undefined)
    assert.equal(set.match(`/${'x'.repeat(10_000)}`, 'GET', 0), undefined)
  })

  /** As large as a pattern may be, and of those that take longest. */
  const LARGE = '(a|b)*a(a|b){94}$'
  const long = (length: number) => `/${'ab'.repeat(length / 2)}`.slice(0, length)

  test('does not say which rule is the first where a path is too long to be searched for it', () => {
    const set = new RuleSet([rule('large', LARGE)], AS_WRITTEN)
    assert.notEqual(set.match(long(3_000), 'GET', 0), null)
    for (const length of [4_000, 15_000]) assert.equal(set.match(long(length), 'GET', 0), null)
    const both = new RuleSet([rule('large', LARGE)], { caseSensitive: false, ignoreTrailingSlash: true })
    assert.equal(both.match(long(15_000), 'GET', 0), null)
  })

  test('searches a path of usual length for any number of patterns', () => {
    const rules = Array.from({ length: 100 }, (_, place) => rule(`r${place}`, `[a-f]\\d{${place}}.{100}$`))
    assert.notEqual(new RuleSet(rules, AS_WRITTEN).match(long(256), 'GET', 0), null)
    assert.equal(new RuleSet(rules, AS_WRITTEN).match(long(258), 'GET', 0), null)
    const both = new RuleSet(rules, { caseSensitive: true, ignoreTrailingSlash: true })
    assert.notEqual(both.match(long(256), 'GET', 0), null, 'with a slash it is longer')
  })

  test('takes the work of all its searches of one request from the same budget', () => {
    const set = new RuleSet([rule('large', LARGE)], AS_WRITTEN)
    const request = { work: 0 }
    assert.notEqual(set.match(long(3_000), 'GET', 0, request), null)
    assert.equal(set.candidates(long(3_000), 'GET', 0, request), null)
    assert.equal(set.match(long(3_000), 'GET', 0, request), null)
    assert.notEqual(set.match(long(256), 'GET', 0, request), null)
  })

  test('searches the longest path for one pattern of usual size', () => {
    const set = new RuleSet([rule('a', '^/[a-z]+/v[0-9]+/(items|orders)/')], AS_WRITTEN)
    assert.equal(set.match(`/shop/v1/orders/${'a'.repeat(8_000)}`, 'GET', 0)?.name, 'a')
    assert.equal(set.match(`/shop/v1/${'a'.repeat(8_000)}`, 'GET', 0), undefined)
  })

  test('needs no search where a rule with a literal pattern is the first', () => {
    const rules = [rule('large', LARGE), rule('files', '^/files/', { priority: 1 })]
    assert.equal(new RuleSet(rules, AS_WRITTEN).match(`/files${long(15_000)}`, 'GET', 0)?.name, 'files')
    assert.equal(new RuleSet(rules, AS_WRITTEN).match(long(15_000), 'GET', 0), null)
    const posts = [rule('a', LARGE, { method: 'POST' }), rule('all', '^/')]
    assert.equal(new RuleSet(posts, AS_WRITTEN).match(long(15_000), 'GET', 0)?.name, 'all')
    assert.equal(new RuleSet(posts, AS_WRITTEN).match(long(15_000), 'POST', 0), null)
  })

  test('takes a bounded time for any path', () => {
    const patterns = [LARGE, 'a.{290}[xy]', '(?:a.{50}[xy]|b.{60}[xz]|c.{70}[yz])', 'a.{14}[xy]', '[ab]*a[ab]{30}[xy]']
    for (const pattern of patterns) {
      const set = new RuleSet([rule('slow', pattern)], AS_WRITTEN)
      for (const length of [250, 1_000, 4_000, 16_000]) {
        const times = Array.from({ length: 3 }, () => {
          const path = `/${Array.from({ length }, () => 'abc'[Math.floor(Math.random() * 3)]).join('')}`
          const before = process.cpuUsage()
          set.match(path, 'GET', 0)
          return process.cpuUsage(before).user / 1_000
        })
        assert.ok(Math.min(...times) < 60, `${pattern} takes ${times} ms for ${length} characters`)
      }
    }
  })

  test('answers the same for a path it has seen, whatever it has seen between', () => {
    const set = new RuleSet([rule('even', '[02468]$')], AS_WRITTEN)
    for (let round = 0; round < 2; round++) {
      for (let place = 0; place < 10_000; place++) {
        assert.equal(set.match(`/${place}`, 'GET', 0)?.name, place % 2 === 0 ? 'even' : undefined)
      }
    }
  })
})
