/**
 * Compiles conditions: one walk of the parsed tree refuses what conditions do not have, and replaces what reads the
 * request and the functions of `functions.ts`. The library evaluates the rest.
 */
import type { GeoFileKind } from '../../clients/geo.js'
import { shortened } from '../../ground/shortened.js'
import { type Evaluate, type Expression, parseExpression, replaceEvaluation, takeMacroWork } from './cel.js'
import { type ConditionFacts, currentFacts, evaluateWith } from './condition-facts.js'
import { ConditionFailure, describeAt, errorAt, MISSING } from './failure.js'
import {
  CONVERSIONS,
  createListTest,
  createNetworkTest,
  createPatternSearch,
  FUNCTION_NAMES,
  LIBRARY_FUNCTIONS,
  literalText,
  MACROS,
  METHOD_NAMES,
  METHODS,
  type Replacement,
} from './functions.js'
import { requestField } from './request.js'
import { countElements, readMember, readUserField, toValue } from './values.js'
import { takeWorkOn, WEIGHTLESS, type Weights, weightsWithin } from './weights.js'

/** Deeper expressions are refused. Operands of && and || in a row are not nested. */
const MAX_DEPTH = 64
const QUOTED_LENGTH = 40

/** Names that no element has. */
const TAKEN = ['request', 'client', 'user']

type Literal = Extract<Expression, { op: 'value' }>
type Name = Extract<Expression, { op: 'id' }>
type Member = Extract<Expression, { op: '.' | '[]' }>
type Call = Extract<Expression, { op: 'call' }>
type MethodCall = Extract<Expression, { op: 'rcall' }>

/** The surroundings of a part of a condition. */
interface Scope {
  /** The name of the element, within a macro. */
  readonly element: string | undefined
  readonly depth: number
  /** The work that is done with the value of the part. */
  readonly weights: Weights
  /** Whether the condition cannot hold where the part fails: as one of && in a row, or in another one. */
  readonly decides: 'in a row' | 'alone' | false
  readonly found: Findings
}

/** The needs of a condition, found while it is compiled. */
interface Findings {
  readsUser: boolean
  /** Fields without which the condition does not hold. */
  readonly fields: Set<string>
  /** The names of lists. */
  readonly lists: Set<string>
  /** The files about addresses. */
  readonly geo: Set<GeoFileKind>
}

export interface CompiledExpression {
  readonly readsUser: boolean
  /** Fields of the user without which the condition does not hold. */
  readonly fields: readonly string[]
  /** The names of the lists that it asks. */
  readonly lists: readonly string[]
  /** The files about addresses that it asks. */
  readonly geo: readonly GeoFileKind[]
  /** Returns the value for a request, or throws what the library does, `MISSING` or what a getter of the host's throws. */
  evaluate(facts: ConditionFacts): unknown
}

/** @throws Error that tells the position and the remedy */
export function compileExpression(text: string): CompiledExpression {
  const { root, check, evaluate } = parseExpression(text)
  const found: Findings = { readsUser: false, fields: new Set(), lists: new Set(), geo: new Set() }
  prepare(root, { element: undefined, depth: 0, weights: WEIGHTLESS, decides: 'in a row', found })
  check()
  return {
    readsUser: found.readsUser,
    fields: [...found.fields],
    lists: [...found.lists],
    geo: [...found.geo],
    evaluate: (facts) => evaluateWith(facts, evaluate),
  }
}

/** Prepares a part and what it consists of. */
function prepare(node: Expression, outer: Scope): void {
  if (outer.depth >= MAX_DEPTH) throw errorAt(node, 'is nested too deeply: write it shorter, or two rules')
  const evaluate = prepareNode(node, { ...outer, depth: outer.depth + 1 })
  if (evaluate !== undefined) replaceEvaluation(node, evaluate)
}

/** Returns what replaces the library's evaluation of a part; undefined where that stays. */
function prepareNode(node: Expression, outer: Scope): Evaluate | undefined {
  const scope: Scope = { ...outer, decides: outer.decides && 'alone' }
  const maybe: Scope = { ...outer, decides: false }
  switch (node.op) {
    case 'value':
      return prepareLiteral(node, scope)
    case 'id':
      return prepareName(node, scope)
    case '.':
    case '[]':
      return prepareMember(node, scope)
    case 'call':
      return prepareFunction(node, scope)
    case 'rcall':
      return prepareMethod(node, scope)
    case 'list':
      return prepareAll(node.args, scope)
    case 'map':
      return prepareMap(node.args, scope)
    case '?:':
      prepare(node.args[0], { ...scope, weights: WEIGHTLESS })
      return prepareAll(node.args.slice(1), maybe)
    case '&&':
      return prepareAll(flattenOperands(node.op, node), outer.decides === 'in a row' ? outer : maybe)
    case '||':
      return prepareAll(flattenOperands(node.op, node), maybe)
    case '!_':
    case '-_':
      return prepareAll([node.args], scope)
    case 'in':
      return prepareIn(node, { ...scope, weights: weightsWithin(node.op, scope.weights) })
    case '.?':
    case '[?]':
      throw errorAt(node, 'is not part of conditions')
    default:
      return prepareAll(node.args, { ...scope, weights: weightsWithin(node.op, scope.weights) })
  }
}

function prepareAll(nodes: readonly Expression[], scope: Scope): undefined {
  for (const node of nodes) prepare(node, scope)
}

/** Prepares `'x-plan' in request.headers` to ask for that header alone. */
function prepareIn({ args }: Extract<Expression, { op: 'in' }>, scope: Scope): Evaluate | undefined {
  const [name, container] = args
  const texts = requestField(container)
  if (texts?.kind !== 'map') return prepareAll(args, scope)
  prepare(name, scope)
  return (evaluator, _node, context) => texts.view.has(evaluator.run(name, context))
}

/** Prepares a map that is written out. The library makes an object of it, whose keys are texts. */
function prepareMap(entries: readonly (readonly [Expression, Expression])[], scope: Scope): Evaluate {
  prepareAll(entries.flat(), scope)
  return (evaluator, _node, context) =>
    new Map(entries.map(([key, value]) => [evaluator.run(key, context), evaluator.run(value, context)]))
}

/** Returns the operands of operators in a row, which are parsed as pairs within each other. */
function flattenOperands(op: '&&' | '||', node: Expression): Expression[] {
  const operands: Expression[] = []
  let rest = node
  while (rest.op === op) {
    operands.unshift(rest.args[1])
    rest = rest.args[0]
  }
  return [rest, ...operands]
}

function prepareLiteral(node: Literal, { element, weights }: Scope): Evaluate | undefined {
  const { args: value } = node
  if (typeof value === 'object' && value !== null) {
    throw errorAt(node, 'is not part of conditions: write a text in quotes, or a number without a suffix')
  }
  return element !== undefined && typeof value === 'string' ? () => takeWorkOn(value, weights, true) : undefined
}

function prepareName(node: Name, { element, weights, found }: Scope): Evaluate {
  const { args: name } = node
  if (name === element) {
    return (evaluator, part, context) => takeWorkOn(context.getCheckedValue(evaluator, part), weights, true)
  }
  if (name === 'user') {
    found.readsUser = true
    return () => takeWorkOn(toValue(currentFacts().user), weights, element !== undefined)
  }
  if (name === 'request' || name === 'client') {
    throw errorAt(node, 'is not a value: write one of its fields, such as request.path or client.ip')
  }
  throw errorAt(
    node,
    `${JSON.stringify(shortened(name, QUOTED_LENGTH))} is not a known name: write request, client, user, a text in quotes, or one of ${FUNCTION_NAMES}`,
  )
}

/** Prepares `request.path`, `request.headers['x-plan']`, `user.plan`, and members of these. */
function prepareMember(node: Member, scope: Scope): Evaluate {
  const { weights, element, decides, found } = scope
  const inMacro = element !== undefined
  const field = requestField(node)
  if (field?.kind === 'value') {
    if (field.geo !== undefined) found.geo.add(field.geo)
    return () => takeWorkOn(field.read(currentFacts()), weights, inMacro)
  }
  if (field?.kind === 'map') return () => takeWorkOn(field.view, weights, inMacro)
  const [object, key] = node.args
  const name = typeof key === 'string' ? key : literalText(key)
  const texts = requestField(object)
  // A value that was not sent reads as an empty text, so that nobody escapes a rule by leaving it out.
  if (texts?.kind === 'map' && name !== undefined) {
    texts.validateName(node, name)
    return () => takeWorkOn(texts.view.get(name) ?? '', weights, inMacro)
  }
  if (object.op === 'id' && object.args === 'user' && name !== undefined) {
    found.readsUser = true
    if (decides !== false) found.fields.add(name)
    return () => takeWorkOn(present(readUserField(currentFacts().userWith(name), name)), weights, inMacro)
  }
  const unweighted: Scope = { ...scope, weights: WEIGHTLESS }
  prepare(object, unweighted)
  if (typeof key !== 'string') prepare(key, unweighted)
  const failure = failureAt(node, 'has no fields of this kind')
  return (evaluator, _node, context) => {
    const whole = evaluator.run(object, context)
    const member = readMember(whole, typeof key === 'string' ? key : evaluator.run(key, context), failure)
    return takeWorkOn(texts === undefined ? present(member) : (member ?? ''), weights, inMacro)
  }
}

function present<Value>(value: Value | undefined): Value {
  if (value === undefined) throw MISSING
  return value
}

function prepareFunction(node: Call, scope: Scope): Evaluate | undefined {
  const [name, args] = node.args
  if (name === 'has') return prepareHas(node, scope)
  if (name === 'matches') return prepareMatches(node, args, scope)
  const within: Scope = { ...scope, weights: weightsWithin(name, scope.weights) }
  if (name === 'inNetwork') return prepareReplaced(node, args, within, createNetworkTest(node, args[1]))
  if (name === 'inList') {
    const list = createListTest(node, args[1])
    scope.found.lists.add(list.name)
    return prepareReplaced(node, args, within, list.test)
  }
  const convert = Object.hasOwn(CONVERSIONS, name) ? CONVERSIONS[name] : undefined
  if (convert !== undefined) return prepareReplaced(node, args, within, convert)
  if (LIBRARY_FUNCTIONS.includes(name)) return prepareAll(args, within)
  throw errorAt(node, `${name}() is not a function of conditions: the functions are ${FUNCTION_NAMES}`)
}

function prepareMethod(node: MethodCall, scope: Scope): Evaluate | undefined {
  const [name, receiver, args] = node.args
  const operands = [receiver, ...args]
  if (MACROS.includes(name)) return prepareMacro(node, scope)
  if (name === 'matches') return prepareMatches(node, operands, scope)
  const within: Scope = { ...scope, weights: weightsWithin(name, scope.weights) }
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined
  if (method !== undefined) return prepareReplaced(node, operands, within, method)
  prepareAll(operands, within)
  if (name === 'size') return undefined
  throw errorAt(node, `${name}() is not a method of conditions: the methods are ${METHOD_NAMES}`)
}

function prepareMatches(node: Call | MethodCall, operands: readonly Expression[], scope: Scope): Evaluate {
  const { search, size } = createPatternSearch(node, operands[1])
  const { weights } = scope
  return prepareReplaced(node, operands, { ...scope, weights: { ...weights, text: weights.text + size } }, search)
}

function prepareReplaced(
  node: Call | MethodCall,
  operands: readonly Expression[],
  scope: Scope,
  replacement: Replacement,
): Evaluate {
  prepareAll(operands, scope)
  const [operand = node, other] = operands
  const literal = literalText(other)
  const isRead = other !== undefined && literal === undefined
  const failure = failureAt(node, `${node.args[0]}() cannot take the value of this request`)
  return (evaluator, _node, context) => {
    const value = replacement(evaluator.run(operand, context), isRead ? evaluator.run(other, context) : literal)
    if (value === undefined) throw failure
    return value
  }
}

/** Prepares `has(user.plan)`, which asks whether a field is there. */
function prepareHas(node: Call, scope: Scope): Evaluate {
  const [field] = node.args[1]
  if (field?.op !== '.') throw errorAt(node, "has() takes a field such as user.plan; write 'x-plan' in request.headers")
  if (requestField(field) !== undefined) return () => true
  const [object, name] = field.args
  const texts = requestField(object)
  if (texts?.kind === 'map') texts.validateName(field, name)
  if (object.op === 'id' && object.args === 'user') {
    scope.found.readsUser = true
    return () => readUserField(currentFacts().userWith(name), name) !== undefined
  }
  prepare(object, { ...scope, weights: WEIGHTLESS })
  const failure = failureAt(node, 'has no fields of this kind')
  return (evaluator, _node, context) => readMember(evaluator.run(object, context), name, failure) !== undefined
}

/**
 * Prepares a macro. Macros do not stand within each other, so that a condition takes linear time: a list is gone through
 * once for each macro that is written.
 */
function prepareMacro(node: MethodCall, scope: Scope): undefined {
  const [name, receiver, [variable, ...body]] = node.args
  if (scope.element !== undefined) {
    throw errorAt(
      node,
      `${name}() stands within another macro, which would take too long: write one after the other, or two rules`,
    )
  }
  if (variable?.op !== 'id' || body.length === 0) {
    throw errorAt(node, `${name}() takes the name of an element and what to test: roles.${name}(role, role == 'admin')`)
  }
  if (TAKEN.includes(variable.args)) {
    throw errorAt(variable, `${variable.args} is what it always is: give the element another name`)
  }
  prepare(receiver, scope)
  prepareAll(body, { ...scope, element: variable.args, decides: false })
  // The length of the body bounds the number of parts that are evaluated for each element.
  const weight = node.end - node.start
  takeMacroWork(node, {
    begin: (list) => currentFacts().takeMacro(countElements(list), weight),
    beginElement: () => currentFacts().refuseExhausted(),
    fail: (error) => currentFacts().takeFailure(error),
  })
}

/** Creates the failure of a part, once: it may be thrown for every request. */
function failureAt(node: Expression, problem: string): ConditionFailure {
  return new ConditionFailure(describeAt({ input: node.input, pos: node.start }, problem))
}
