/** What this package replaces of the library's evaluation, and how it reads a user, changes no answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Environment } from '@marcbachmann/cel-js'
import { parseCondition } from '../../../src/rules/conditions/condition.js'
import { TestFacts } from '../../support/condition-facts.js'
import { long } from '../../support/long.js'
import { fc } from '../../support/properties.js'

const USER = { int: 7n, double: 1.5, text: 'free', yes: true, list: [1n, 2n, 3n], texts: ['a', 'free'], none: null }
/** The same as a host has it. */
const FIELDS = { ...USER, int: 7, list: [1, 2, 3] }

const { expression } = fc.letrec<{ expression: string; truth: string; int: string; double: string; text: string }>(
  (tie) => ({
    int: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom(
        '0',
        '1',
        '3',
        '9223372036854775807',
        'int(user.int)',
        "size('free')",
        'size([1, 2])',
        'int(2.7)',
      ),
      fc
        .tuple(tie('int'), fc.constantFrom('+', '-', '*', '/', '%'), tie('int'))
        .map(([a, op, b]) => `(${a} ${op} ${b})`),
    ),
    double: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom('0.5', '1.5', '7.0', 'double(user.double)', 'double(3)'),
      fc
        .tuple(tie('double'), fc.constantFrom('+', '-', '*', '/'), tie('double'))
        .map(([a, op, b]) => `(${a} ${op} ${b})`),
    ),
    text: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom("'a'", "'free'", "''", 'string(user.text)', 'string(12)', "' x '.trim()", "'Free'.lowerAscii()"),
      fc.tuple(tie('text'), tie('text')).map(([a, b]) => `(${a} + ${b})`),
      fc.tuple(tie('truth'), tie('text'), tie('text')).map(([c, a, b]) => `(${c} ? ${a} : ${b})`),
    ),
    truth: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom('true', 'false', 'user.yes == true', 'has(user.text)', 'has(user.absent)', 'user.none == null'),
      fc
        .tuple(tie('truth'), fc.constantFrom('&&', '||', '==', '!='), tie('truth'))
        .map(([a, op, b]) => `(${a} ${op} ${b})`),
      tie('truth').map((a) => `!${a}`),
      ...(['int', 'double', 'text'] as const).map((kind) =>
        fc
          .tuple(tie(kind), fc.constantFrom('==', '!=', '<', '<=', '>', '>='), tie(kind))
          .map(([a, op, b]) => `(${a} ${op} ${b})`),
      ),
      fc
        .tuple(tie('int'), fc.constantFrom('<', '<=', '>', '>='), tie('double'))
        .map(([a, op, b]) => `(${a} ${op} ${b})`),
      fc
        .tuple(tie('text'), fc.constantFrom('startsWith', 'endsWith', 'contains'), tie('text'))
        .map(([a, name, b]) => `${a}.${name}(${b})`),
      fc.tuple(tie('int'), fc.constantFrom('user.list', '[1, 7]', '[]')).map(([a, list]) => `(${a} in ${list})`),
      fc
        .tuple(fc.constantFrom('all', 'exists', 'exists_one'), tie('int'))
        .map(([name, b]) => `user.list.${name}(x, x + 1 > ${b})`),
      fc
        .constantFrom("'!'", "'a'", 'user.text', "''")
        .map((a) => `(user.texts.map(x, x + ${a}).filter(y, y != 'a').size() > 1)`),
    ),
    expression: tie('truth'),
  }),
)

test('conditions answer, and fail, as the library that parses them does', long(), () => {
  const environment = new Environment().registerVariable('user', 'dyn')
  let failures = 0
  fc.assert(
    fc.property(expression, (text) => {
      fc.pre(text.length <= 1_000)
      const expected = outcome(() => environment.evaluate(text, { user: USER }))
      const found = outcome(() => parseCondition(text)?.holds(new TestFacts({ user: FIELDS })))
      if (expected === 'fails') failures++
      assert.equal(found, expected)
    }),
    { numRuns: 3_000, seed: 7 },
  )
  assert.ok(failures > 50, 'some of them fail')
})

function outcome(evaluate: () => unknown): unknown {
  try {
    return evaluate()
  } catch {
    return 'fails'
  }
}
