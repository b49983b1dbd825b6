/** Whatever a rule set does to be fast, it answers what trying one rule after the other would. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RE2JS } from 're2js'
import { loadModule } from '../../../src/ground/package-root.js'
import { CooperativeYield } from '../../../src/ground/time/cooperative-yield.js'
import { parseCandidate } from '../../../src/reports/preview/preview.js'
import type { PathOptions } from '../../../src/rules/patterns/path-patterns.js'
import { PatternIndex } from '../../../src/rules/patterns/pattern-index.js'
import { requiredPrefix, requiredTexts } from '../../../src/rules/patterns/required-text.js'
import { RuleSet } from '../../../src/rules/rule-set.js'
import { fc } from '../../support/properties.js'

/** The copy that patterns are compiled with: it is required, and not imported. */
const engine = loadModule('re2js') as typeof import('re2js')

const text = fc.string({ unit: fc.constantFrom('/', 'a', 'k', 's', 'K', 'S', 'b', '.', '-', '_'), maxLength: 5 })
const piece = fc.constantFrom(
  '/aks',
  'abk/',
  '/aks',
  'kkkk',
  '/a',
  '/',
  'k',
  's',
  'as',
  '\\.',
  '\\-',
  '.',
  '[ks]',
  '[]|(]',
  '[[:alpha:](]',
  '[^|]',
  '\\d',
  '(a|/k)',
  '(?:s|)',
  '(?i)',
  '(?i:k)',
  '|',
  '|b',
  '$',
  '^',
  '*',
  '+',
  '?',
  '{2}',
  '{0,1}',
  '{',
  '\\Qa|b\\E',
  '\\/',
  '\\|',
  '\\(',
  '\\p{L}',
  '-',
  '_',
  ' ',
  '(?m)',
  '\\b',
  '\\B',
  '\\A',
  '\\[^',
  '[^/]',
  '(?m:^)',
) // prettier-ignore
const beginning = fc.constantFrom('^/', '^/a', '^', '(?i)^/k', '(?i)^/a', '(?m)^/', '', '^/a-', '(^/a)', '^/s\\.')
const pattern = fc
  .tuple(beginning, fc.array(piece, { maxLength: 4 }))
  .map(([start, pieces]) => start + pieces.join(''))
  .filter((candidate) => {
    try {
      RE2JS.compile(candidate)
      return candidate !== ''
    } catch {
      return false
    }
  })
const path = fc
  .oneof(
    fc.array(
      fc.constantFrom(
        '/aks',
        'abk/',
        'kkkk',
        '/',
        '/a',
        '/A',
        'k',
        'K',
        '\u212a',
        's',
        '\u017f',
        'b',
        '.',
        '-',
        '|',
        '(',
        '\n',
        '\u0130',
        '1',
      ),
      { maxLength: 6 },
    ),
    fc.array(text, { maxLength: 3 }),
  )
  .map((pieces) => `/${pieces.join('')}`) // prettier-ignore
const longPath = fc
  .tuple(path, fc.constantFrom('k', '/aks', '\u212a', 'b1/'), path)
  .map(([start, middle, end]) => `${start}${middle.repeat(Math.ceil(257 / middle.length))}${end}`)
const rules = fc
  .array(
    fc.record({ pattern, priority: fc.integer({ min: 0, max: 2 }), method: fc.constantFrom('ALL', 'GET', 'POST') }),
    { maxLength: 150 },
  )
  .map((drawn) =>
    drawn.map(({ pattern: pathPattern, ...rest }, place) =>
      parseCandidate({
        name: `rule ${place}`,
        pathPattern,
        rate: '1/m',
        ...rest,
      }),
    ),
  ) // prettier-ignore

/** The definition. */
function matchOneByOne(set: RuleSet, asked: string, method: string, options: PathOptions) {
  const paths = [asked]
  if (options.ignoreTrailingSlash && asked.length > 1) {
    paths.push(asked.endsWith('/') ? asked.slice(0, -1) : `${asked}/`)
  }
  return set.rules.find(({ pathPattern, methods }) => {
    const compiled = RE2JS.compile(pathPattern, options.caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE)
    const covers = methods[0] === 'ALL' || methods.includes(method) || (method === 'HEAD' && methods.includes('GET'))
    return covers && paths.some((each) => compiled.matcher(each).find())
  })
}

describe('a rule set', () => {
  test('matches what its rules match one by one, whatever they are', () => {
    fc.assert(
      fc.property(
        rules,
        fc.array(path, { minLength: 1, maxLength: 5 }),
        fc.constantFrom('GET', 'HEAD', 'POST'),
        fc.record({ caseSensitive: fc.boolean(), ignoreTrailingSlash: fc.boolean() }),
        (drawn, paths, method, options) => {
          const set = new RuleSet(drawn, options)
          for (const asked of paths) {
            assert.equal(set.match(asked, method, 0)?.name, matchOneByOne(set, asked, method, options)?.name, asked)
          }
        },
      ),
      { numRuns: 100 },
    )
  })

  test('matches in long paths what its rules match one by one', async () => {
    await fc.assert(
      fc.asyncProperty(
        rules.map((drawn) => drawn.slice(0, 40)),
        fc.array(longPath, { minLength: 1, maxLength: 4 }),
        fc.record({ caseSensitive: fc.boolean(), ignoreTrailingSlash: fc.boolean() }),
        async (drawn, paths, options) => {
          const set = await RuleSet.compile(drawn, options)
          for (const asked of paths) {
            assert.equal(set.match(asked, 'GET', 0)?.name, matchOneByOne(set, asked, 'GET', options)?.name, asked)
          }
        },
      ),
      { numRuns: 100 },
    )
  })

  test('searches for the patterns that are found by a part of a path once, however often the path has that part', async (t) => {
    const patterns = Array.from({ length: 100 }, (_, place) => `customers?/[a-f]${place % 10}.*${place}$`)
    const index = await PatternIndex.compile(patterns, true, undefined)
    const path = '/customers/b1'.repeat(15)
    const match = t.mock.method(engine.RE2Set.prototype, 'match')
    const found: number[] = []
    index.match(
      path,
      (place) => found.push(place),
      () => true,
    )
    assert.notEqual(match.mock.callCount(), 0)
    assert.ok(match.mock.callCount() <= 10, `${match.mock.callCount()} searches`)
    assert.deepEqual(
      found,
      [1, 11].filter((place) => new RegExp(patterns[place] ?? '').test(path)),
    )
  })

  test('searches for a path of 256 characters as a short one also with the slash that the router ignores', async (t) => {
    const rules = Array.from({ length: 20 }, (_, place) =>
      parseCandidate({ name: `rule ${place}`, pathPattern: `^/a/.*[k-s]${place}(x|y)+b$`, rate: '1/m' }),
    )
    const set = await RuleSet.compile(rules, { caseSensitive: true, ignoreTrailingSlash: true })
    // For longer paths there are automata without states, which are compiled at the first of them.
    const compiled = t.mock.method(engine.RE2Set.prototype, 'compile')
    const request = { work: 0 }
    assert.equal(set.match(`/a/${'c'.repeat(253)}`, 'GET', 0, request), undefined)
    assert.equal(set.match(`/a/${'c'.repeat(249)}k7xb`, 'GET', 0, request)?.name, 'rule 7')
    assert.equal(compiled.mock.callCount(), 0)
    assert.equal(request.work, 0)
    set.match(`/a/${'c'.repeat(300)}`, 'GET', 0, request)
    assert.notEqual(compiled.mock.callCount(), 0)
  })

  test('never takes a prefix for required that is not', () => {
    fc.assert(
      fc.property(pattern, path, fc.boolean(), (candidate, asked, caseSensitive) => {
        const required = requiredPrefix(candidate, caseSensitive)
        if (required === undefined) return
        const matches = RE2JS.compile(candidate, caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE)
          .matcher(asked)
          .find()
        if (required.exactly === 'prefix') assert.equal(matches, asked.startsWith(required.prefix))
        if (required.exactly === 'whole') assert.equal(matches, asked === required.prefix)
        if (required.rest !== null && asked.startsWith(required.prefix)) {
          const rest = RE2JS.compile(required.rest).matcher(asked.slice(required.prefix.length)).find()
          assert.equal(matches, rest, required.rest)
        }
        if (matches && !required.folded) assert.ok(asked.startsWith(required.prefix))
      }),
      { numRuns: 2_000 },
    )
  })

  test('never takes a text for required that is not', () => {
    fc.assert(
      fc.property(pattern, path, (candidate, asked) => {
        if (!RE2JS.compile(candidate).matcher(asked).find()) return
        for (const required of requiredTexts(candidate, true)) assert.ok(asked.includes(required), required)
      }),
      { numRuns: 4_000 },
    )
  })

  test('finds each of thousands of rules that begin alike', async () => {
    const names = Array.from({ length: 3_000 }, (_, place) => `n${place}`)
    const drawn = names.map((name) =>
      parseCandidate({
        name,
        pathPattern: `^/[a-z]+/${name}(/|$)`,
        rate: '1/m',
      }),
    )
    const set = await RuleSet.compile(drawn, { caseSensitive: true, ignoreTrailingSlash: false })
    for (const name of names) {
      assert.equal(set.match(`/abc/${name}/x`, 'GET', 0)?.name, name)
      assert.equal(set.match(`/abc/${name}`, 'GET', 0)?.name, name)
    }
    assert.equal(set.match(`/abc/n7/${'x'.repeat(1_000)}`, 'GET', 0)?.name, 'n7')
    assert.equal(set.match('/abc/other', 'GET', 0), undefined)
  })

  test('that follows on another one matches what its rules match one by one', async () => {
    await fc.assert(
      fc.asyncProperty(
        rules,
        rules,
        fc.array(path, { maxLength: 5 }),
        fc.boolean(),
        async (old, fresh, paths, both) => {
          const options = { caseSensitive: true, ignoreTrailingSlash: false }
          const before = await RuleSet.compile(old, options)
          const set = await RuleSet.compile(both ? [...fresh, ...old] : fresh, options, before)
          for (const asked of paths) {
            assert.equal(set.match(asked, 'GET', 0)?.name, matchOneByOne(set, asked, 'GET', options)?.name, asked)
          }
        },
      ),
      { numRuns: 50 },
    )
  })

  test('that is compiled lets the event loop go on after each pattern, whatever is done with it', async (t) => {
    const patterns = Array.from({ length: 200 }, (_, place) => `^/[a-z]+/customers/n${place}/orders(/|$)`)
    const before = await PatternIndex.compile(patterns, true, undefined)
    t.mock.method(CooperativeYield.prototype, 'over', () => true)
    const pause = t.mock.method(CooperativeYield.prototype, 'pause', async () => undefined)
    await PatternIndex.compile([...patterns.slice(1), '^/[a-z]+/customers/other/orders(/|$)'], true, before)
    // Added, grouped, given a part, put to others with it, and grouped with them.
    assert.ok(pause.mock.callCount() >= 5 * patterns.length, `${pause.mock.callCount()} pauses`)
  })

  test('that was compiled from another one matches like one made afresh', async () => {
    const options = { caseSensitive: true, ignoreTrailingSlash: false }
    const numbered = (count: number, from = 0) =>
      Array.from({ length: count }, (_, place) =>
        parseCandidate({
          name: `rule ${place + from}`,
          pathPattern: `^/[a-z]+/${place + from}$`,
          rate: '1/m',
        }),
      )
    const before = await RuleSet.compile(numbered(300), options)
    const after = await RuleSet.compile(numbered(300, 1), options, before)
    for (let place = 0; place <= 300; place++) {
      assert.equal(before.match(`/x/${place}`, 'GET', 0)?.name, place < 300 ? `rule ${place}` : undefined)
      assert.equal(after.match(`/x/${place}`, 'GET', 0)?.name, place > 0 ? `rule ${place}` : undefined)
    }
  })
})
