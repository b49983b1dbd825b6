import type { Expression } from './cel.js'
import type { ConditionFacts } from './condition-facts.js'
import { type ConditionFailure, errorAt } from './failure.js'
import { requestNames } from './request.js'
import { type Evaluate, failureAt, type Scope } from './scope.js'
import { areEqual, elementsOf, isInt, isNumber, isTimestamp, MISSING, memberOf, toValue, type Value } from './values.js'

type Operator = (a: Value, b: Value, facts: ConditionFacts, failure: ConditionFailure) => Value

/** Comparisons: false where an operand is missing. */
const COMPARISONS: Readonly<Record<string, Operator>> = {
  '==': (a, b, facts) => areEqual(a, b, facts),
  '!=': (a, b, facts) => !areEqual(a, b, facts),
  '<': (a, b, facts, failure) => compareValues(a, b, facts, failure) < 0,
  '<=': (a, b, facts, failure) => compareValues(a, b, facts, failure) <= 0,
  '>': (a, b, facts, failure) => compareValues(a, b, facts, failure) > 0,
  '>=': (a, b, facts, failure) => compareValues(a, b, facts, failure) >= 0,
  in: isIn,
}

/** Operators whose result is missing where an operand is. */
const ARITHMETIC: Readonly<Record<string, Operator>> = {
  '+': add,
  '-': calculation(
    (a, b) => a - b,
    (a, b) => a - b,
  ),
  '*': calculation(
    (a, b) => a * b,
    (a, b) => a * b,
  ),
  '/': calculation(
    (a, b) => (b === 0n ? undefined : a / b),
    (a, b) => a / b,
  ),
  '%': calculation(
    (a, b) => (b === 0n ? undefined : a % b),
    () => undefined,
  ),
}

/** Compiles an operator between two operands. */
export function compileBinary(node: Expression, scope: Scope): Evaluate {
  if (!Array.isArray(node.args) || node.args.length !== 2) throw errorAt(node, 'is not part of conditions')
  const [left, right] = pairOf(node)
  const a = scope.compile(left, scope)
  const comparison = COMPARISONS[node.op]
  const hasName = node.op === 'in' ? requestNames(right) : undefined
  if (hasName !== undefined) {
    return (facts) => {
      const name = a(facts)
      return typeof name === 'string' && hasName(facts, name)
    }
  }
  const b = scope.compile(right, scope)
  const failure = failureAt(node, `${node.op} has no meaning for the values of this request`)
  const operator = comparison ?? ARITHMETIC[node.op]
  if (operator === undefined) throw errorAt(node, 'is not part of conditions')
  const missing = comparison === undefined ? MISSING : false
  return (facts) => {
    const first = a(facts)
    const second = b(facts)
    return first === MISSING || second === MISSING ? missing : operator(first, second, facts, failure)
  }
}

function pairOf(node: Expression): readonly [Expression, Expression] {
  switch (node.op) {
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
    case 'in':
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
      return node.args
    default:
      throw errorAt(node, 'is not part of conditions')
  }
}

export function compileNegation(node: Expression, operand: Evaluate): Evaluate {
  const failure = failureAt(node, '- needs a number')
  return (facts) => {
    const value = operand(facts)
    if (value === MISSING) return MISSING
    if (typeof value === 'number') return -value
    if (typeof value !== 'bigint' || !isInt(-value)) throw failure
    return -value
  }
}

/** Returns a negative number where `a` comes first; NaN where a double is none. */
function compareValues(a: Value, b: Value, facts: ConditionFacts, failure: ConditionFailure): number {
  if (isNumber(a) && isNumber(b)) return a < b ? -1 : a > b ? 1 : a >= b ? 0 : Number.NaN
  if (typeof a === 'string' && typeof b === 'string') {
    facts.takeText(Math.min(a.length, b.length), 1)
    return a < b ? -1 : Number(a > b)
  }
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b)
  if (a !== null && b !== null && isTimestamp(a) && isTimestamp(b)) return a.getTime() - b.getTime()
  throw failure
}

function isIn(value: Value, list: Value, facts: ConditionFacts, failure: ConditionFailure): boolean {
  if (typeof list === 'object' && list !== null && !Array.isArray(list) && !(list instanceof Set)) {
    return memberOf(list, value, failure) !== MISSING
  }
  const elements = elementsOf(list)
  if (elements === undefined) throw failure
  facts.takeList(elements.length)
  return elements.some((raw) => {
    const element = toValue(raw)
    return element !== MISSING && areEqual(value, element, facts)
  })
}

function add(a: Value, b: Value, facts: ConditionFacts, failure: ConditionFailure): Value {
  if (typeof a === 'string' && typeof b === 'string') {
    facts.takeText(a.length + b.length, 1)
    return a + b
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    facts.takeList(a.length + b.length)
    return [...a, ...b]
  }
  return sum(a, b, facts, failure)
}

const sum = calculation(
  (a, b) => a + b,
  (a, b) => a + b,
)

/** Creates an operator on two numbers of one type; undefined, or more than 64 bits, is a failure. */
function calculation(
  ofInts: (a: bigint, b: bigint) => bigint | undefined,
  ofDoubles: (a: number, b: number) => number | undefined,
): Operator {
  return (a, b, _facts, failure) => {
    if (typeof a === 'bigint' && typeof b === 'bigint') {
      const result = ofInts(a, b)
      if (result !== undefined && isInt(result)) return result
    } else if (typeof a === 'number' && typeof b === 'number') {
      const result = ofDoubles(a, b)
      if (result !== undefined) return result
    }
    throw failure
  }
}
