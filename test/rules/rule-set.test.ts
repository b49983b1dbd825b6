import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseRule } from '../../src/rules/rule.js'
import { type PathOptions, RuleSet } from '../../src/rules/rule-set.js'

const AS_WRITTEN: PathOptions = { caseSensitive: true, ignoreTrailingSlash: false }

function rule(name: string, pathPattern: string, { method = 'ALL', priority = 0 } = {}) {
  return parseRule({
    name,
    pathPattern,
    method,
    priority,
    rate: '1/m',
    key: 'ip',
    algorithm: 'fixed_window',
    block: true,
  })
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
    assert.equal(set.match(`/${'a'.repeat(50_000)}!`, 'GET'), undefined)
    assert.equal(set.match(`/${'x'.repeat(50_000)}`, 'GET'), undefined)
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
