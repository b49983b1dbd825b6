/** Compiles parsed conditions into functions: the parts that have a value of their own. */
import { type Expression, parseExpression } from './cel.js'
import { errorAt, weightier } from './failure.js'
import { compileFunction, compileMethod, FUNCTION_NAMES } from './functions.js'
import { compileBinary, compileNegation } from './operators.js'
import { requestMember, requestValue } from './request.js'
import { compileTruth, type Evaluate, type Findings, failureAt, type Scope } from './scope.js'
import { MISSING, memberOf, toValue, type Value } from './values.js'

/** Deeper expressions are refused. Operands of && and || in a row are not nested. */
const MAX_DEPTH = 64
const QUOTED_LENGTH = 40

export interface CompiledExpression extends Findings {
  readonly evaluate: Evaluate
}

/** @throws Error that names the place and the remedy */
export function compileExpression(text: string): CompiledExpression {
  const { root, check } = parseExpression(text)
  const found: Findings = { readsUser: false }
  const evaluate = compilePart(root, { element: undefined, depth: 0, found, compile: compilePart })
  check()
  return { evaluate, ...found }
}

function compilePart(node: Expression, outer: Scope): Evaluate {
  if (outer.depth >= MAX_DEPTH) throw errorAt(node, 'is nested too deeply: write it shorter, or two rules')
  const scope: Scope = { ...outer, depth: outer.depth + 1 }
  switch (node.op) {
    case 'value':
      return compileLiteral(node)
    case 'id':
      return compileName(node, scope)
    case '.':
    case '[]':
      return compileMember(node, scope)
    case 'call':
      return compileFunction(node, scope)
    case 'rcall':
      return compileMethod(node, scope)
    case 'list':
      return compileList(node.args.map((element) => compilePart(element, scope)))
    case 'map':
      return compileMap(node.args.map(([key, value]) => [compilePart(key, scope), compilePart(value, scope)]))
    case '?:':
      return compileChoice(node.args, scope)
    case '&&':
    case '||':
      return compileLogic(node.op, operandsOf(node.op, node), scope)
    case '!_': {
      const operand = compileTruth(node.args, scope)
      return (facts) => !operand(facts)
    }
    case '-_':
      return compileNegation(node, compilePart(node.args, scope))
    case '.?':
    case '[?]':
      throw errorAt(node, 'is not part of conditions: what is missing makes a comparison false')
    default:
      return compileBinary(node, scope)
  }
}

function compileLiteral(node: Extract<Expression, { op: 'value' }>): Evaluate {
  const { args: value } = node
  if (typeof value === 'object' && value !== null) {
    throw errorAt(node, 'is not part of conditions: write a text in quotes, or a number without a suffix')
  }
  return () => value
}

function compileName(node: Extract<Expression, { op: 'id' }>, { element, found }: Scope): Evaluate {
  if (node.args === element) return (facts) => toValue(facts.element)
  if (node.args === 'user') {
    found.readsUser = true
    return (facts) => facts.user
  }
  if (node.args === 'request' || node.args === 'client') {
    throw errorAt(node, 'is no value: write one of its fields, such as request.path or client.ip')
  }
  throw errorAt(
    node,
    `${JSON.stringify(node.args.slice(0, QUOTED_LENGTH))} is no name: known are request, client, user and ${FUNCTION_NAMES}; write a text in quotes`,
  )
}

function compileMember(node: Extract<Expression, { op: '.' | '[]' }>, scope: Scope): Evaluate {
  const ofRequest = requestMember(node, (key) => compilePart(key, scope)) ?? requestValue(node)
  if (ofRequest !== undefined) return ofRequest
  const [of, key] = node.args
  const whole = compilePart(of, scope)
  const name = typeof key === 'string' ? () => key : compilePart(key, scope)
  const failure = failureAt(node, 'has no fields of this kind')
  return (facts) => {
    const value = whole(facts)
    const field = name(facts)
    return value === MISSING || field === MISSING ? MISSING : memberOf(value, field, failure)
  }
}

function compileList(elements: readonly Evaluate[]): Evaluate {
  return (facts) => {
    const list: Value[] = []
    for (const element of elements) {
      const value = element(facts)
      if (value === MISSING) return MISSING
      list.push(value)
    }
    facts.takeList(list.length)
    return list
  }
}

function compileMap(entries: readonly (readonly [Evaluate, Evaluate])[]): Evaluate {
  return (facts) => {
    const map = new Map<Value, Value>()
    for (const [evaluateKey, evaluateValue] of entries) {
      const key = evaluateKey(facts)
      const value = evaluateValue(facts)
      if (key === MISSING || value === MISSING) return MISSING
      map.set(key, value)
    }
    facts.takeList(map.size)
    return map
  }
}

function compileChoice([condition, yes, no]: readonly [Expression, Expression, Expression], scope: Scope): Evaluate {
  const isTrue = compileTruth(condition, scope)
  const whenTrue = compilePart(yes, scope)
  const whenFalse = compilePart(no, scope)
  return (facts) => (isTrue(facts) ? whenTrue(facts) : whenFalse(facts))
}

/** Returns the operands of operators in a row, which are parsed as pairs within each other. */
function operandsOf(op: '&&' | '||', node: Expression): Expression[] {
  const operands: Expression[] = []
  let rest = node
  while (rest.op === op) {
    operands.unshift(rest.args[1])
    rest = rest.args[0]
  }
  return [rest, ...operands]
}

/** The operand that decides wins over one that fails, wherever they stand. */
function compileLogic(op: '&&' | '||', nodes: readonly Expression[], scope: Scope): Evaluate {
  const operands = nodes.map((node) => compileTruth(node, scope))
  const deciding = op === '||'
  return (facts) => {
    let failure: unknown
    for (const operand of operands) {
      try {
        if (operand(facts) === deciding) return deciding
      } catch (error) {
        failure = weightier(failure, error)
      }
    }
    if (failure !== undefined) throw failure
    return !deciding
  }
}
