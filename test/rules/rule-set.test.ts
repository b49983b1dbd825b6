import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { PathOptions } from '../../src/patterns/path-patterns.js'
import { parseCandidate } from '../../src/preview/candidate.js'
import { RuleSet } from '../../src/rules/rule-set.js'

const AS_WRITTEN: PathOptions = { caseSensitive: true, ignoreTrailingSlash: false }

function rule(name: string, pathPattern: string, { method = 'ALL', priority = 0 } = {}) {
  return parseCandidate({ name, pathPattern, method, priority, rate: '1/m' })
}

describe('a rule set', () => {
  test('searches the pattern, it need not match the whole path', () => {
    const set = new RuleSet([rule('a', 'b+c')], AS_WRITTEN)
    assert.equal(set.match('/abbbcd', 'GET')?.name, 'a')
    assert.equal(set.match('/abd', 'GET'), undefined)
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
    assert.equal(set.match('/x/y', 'GET')?.name, 'high')
    assert.equal(set.match('/x', 'GET')?.name, 'a')
    assert.equal(set.match('/other', 'GET')?.name, 'low')
  })

  test('goes on to the next rule when the method is another', () => {
    const set = new RuleSet(
      [rule('writes', '^/api/', { method: 'POST,PUT', priority: 1 }), rule('all', '^/api/')],
      AS_WRITTEN,
    )
    assert.equal(set.match('/api/x', 'PUT')?.name, 'writes')
    assert.equal(set.match('/api/x', 'GET')?.name, 'all')
  })

  test('covers HEAD with a rule for GET, not GET with one for HEAD', () => {
    const set = new RuleSet(
      [rule('get', '^/g', { method: 'GET' }), rule('head', '^/h', { method: 'HEAD' })],
      AS_WRITTEN,
    )
    assert.equal(set.match('/g', 'HEAD')?.name, 'get')
    assert.equal(set.match('/h', 'GET'), undefined)
  })

  test('follows a router that ignores case or a slash at the end', () => {
    const rules = [rule('exact', '^/Early$')]
    assert.equal(new RuleSet(rules, AS_WRITTEN).match('/early', 'GET'), undefined)
    const lenient = new RuleSet(rules, { caseSensitive: false, ignoreTrailingSlash: true })
    for (const path of ['/early', '/EARLY/', '/Early']) assert.equal(lenient.match(path, 'GET')?.name, 'exact', path)
    const below = new RuleSet([rule('below', '^/early/')], { caseSensitive: true, ignoreTrailingSlash: true })
    assert.equal(below.match('/early', 'GET')?.name, 'below')
  })

  test('takes İ for what it is in lower case where a router ignores case, but in a class and where a router does not', () => {
    const lenient = { caseSensitive: false, ignoreTrailingSlash: false }
    const found = (pathPattern: string, path: string, options = lenient) =>
      new RuleSet([rule('a', pathPattern)], options).match(path, 'GET') !== undefined
    const inLowerCase = 'İ'.toLowerCase()
    for (const pattern of ['^/İ$', '^/\\Qİ\\E$', '^/(İ|x)$', '^/[[:digit:]İ-ı]?İ$']) {
      assert.equal(found(pattern, `/${inLowerCase}`), true, pattern)
    }
    assert.equal(found('^/[Ā-ı]$', '/ı'), true)
    assert.equal(found('^/İ$', '/İ', AS_WRITTEN), true)
    assert.equal(found('^/İ$', `/${inLowerCase}`, AS_WRITTEN), false)
  })

  test('of no rules matches nothing', () => assert.equal(new RuleSet([], AS_WRITTEN).match('/', 'GET'), undefined))

  test('stays linear where a backtracking matcher would not', () => {
    const set = new RuleSet([rule('evil', '^/(a+)+$'), rule('evil2', '(x+x+)+y')], AS_WRITTEN)
    assert.equal(set.match(`/${'a'.repeat(10_000)}!`, 'GET'), undefined)
    assert.equal(set.match(`/${'x'.repeat(10_000)}`, 'GET'), undefined)
  })

  /** As large as a pattern may be, and of those that take longest. */
  const LARGE = '(a|b)*a(a|b){94}$'
  const long = (length: number) => `/${'ab'.repeat(length / 2)}`.slice(0, length)

  test('does not say which rule is the first where a path is too long to be searched for it', () => {
    const set = new RuleSet([rule('large', LARGE)], AS_WRITTEN)
    assert.notEqual(set.match(long(1_000), 'GET'), null)
    for (const length of [1_200, 15_000]) assert.equal(set.match(long(length), 'GET'), null)
    const both = new RuleSet([rule('large', LARGE)], { caseSensitive: false, ignoreTrailingSlash: true })
    assert.equal(both.match(long(15_000), 'GET'), null)
  })

  test('searches a path of usual length for any number of patterns', () => {
    const rules = Array.from({ length: 100 }, (_, place) => rule(`r${place}`, `[a-f]\\d{${place}}.{100}$`))
    assert.notEqual(new RuleSet(rules, AS_WRITTEN).match(long(256), 'GET'), null)
    assert.equal(new RuleSet(rules, AS_WRITTEN).match(long(257), 'GET'), null)
  })

  test('searches the longest path for one pattern of usual size', () => {
    const set = new RuleSet([rule('a', '^/[a-z]+/v[0-9]+/(items|orders)/')], AS_WRITTEN)
    assert.equal(set.match(`/shop/v1/orders/${'a'.repeat(8_000)}`, 'GET')?.name, 'a')
    assert.equal(set.match(`/shop/v1/${'a'.repeat(8_000)}`, 'GET'), undefined)
  })

  test('needs no search where a rule with a literal pattern is the first', () => {
    const rules = [rule('large', LARGE), rule('files', '^/files/', { priority: 1 })]
    assert.equal(new RuleSet(rules, AS_WRITTEN).match(`/files${long(15_000)}`, 'GET')?.name, 'files')
    assert.equal(new RuleSet(rules, AS_WRITTEN).match(long(15_000), 'GET'), null)
    const posts = [rule('a', LARGE, { method: 'POST' }), rule('all', '^/')]
    assert.equal(new RuleSet(posts, AS_WRITTEN).match(long(15_000), 'GET')?.name, 'all')
    assert.equal(new RuleSet(posts, AS_WRITTEN).match(long(15_000), 'POST'), null)
  })

  test('takes a bounded time for any path', () => {
    const patterns = [LARGE, 'a.{290}[xy]', '(?:a.{50}[xy]|b.{60}[xz]|c.{70}[yz])', 'a.{14}[xy]', '[ab]*a[ab]{30}[xy]']
    for (const pattern of patterns) {
      const set = new RuleSet([rule('slow', pattern)], AS_WRITTEN)
      for (const length of [250, 1_000, 4_000, 16_000]) {
        const times = Array.from({ length: 3 }, () => {
          const path = `/${Array.from({ length }, () => 'abc'[Math.floor(Math.random() * 3)]).join('')}`
          const before = process.cpuUsage()
          set.match(path, 'GET')
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
        assert.equal(set.match(`/${place}`, 'GET')?.name, place % 2 === 0 ? 'even' : undefined)
      }
    }
  })
})
