import type { Expression } from './cel.js'
import type { ConditionFacts } from './condition-facts.js'
import { errorAt, weightier } from './failure.js'
import { compileTruth, type Evaluate, failureAt, type Scope } from './scope.js'
import { elementsOf, MISSING, type Value } from './values.js'

/** The macros that go through a list, or the keys of a map. */
export const MACROS: ReadonlySet<string> = new Set(['all', 'exists', 'exists_one', 'map', 'filter'])

/** Compiles `has(user.plan)`, which asks whether a field is there. */
export function compileHas(node: Extract<Expression, { op: 'call' }>, scope: Scope): Evaluate {
  const [field] = node.args[1]
  if (field?.op !== '.') throw errorAt(node, "has() takes a field such as user.plan; write 'x-plan' in request.headers")
  const value = scope.compile(field, scope)
  return (facts) => value(facts) !== MISSING
}

const TAKEN = ['request', 'client', 'user']

type Predicate = (facts: ConditionFacts) => boolean
type Elements = readonly unknown[]

/**
 * Compiles a macro. Macros do not stand within each other, so that a condition takes linear time: a list is gone through
 * once for each macro that is written.
 */
export function compileMacro(node: Extract<Expression, { op: 'rcall' }>, scope: Scope): Evaluate {
  const [name, receiver, args] = node.args
  if (scope.element !== undefined) {
    throw errorAt(
      node,
      `${name}() stands within another macro, which would take too long: write one after the other, or two rules`,
    )
  }
  const [variable, body, transform] = args
  if (variable?.op !== 'id' || body === undefined) {
    throw errorAt(node, `${name}() takes the name of an element and what to test: roles.${name}(role, role == 'admin')`)
  }
  if (TAKEN.includes(variable.args)) {
    throw errorAt(variable, `${variable.args} is what it always is: give the element another name`)
  }
  const list = scope.compile(receiver, scope)
  const inner: Scope = { ...scope, element: variable.args }
  const run = compileLoop(name, body, transform, inner)
  const missing = name === 'map' || name === 'filter' ? MISSING : false
  const failure = failureAt(node, `${name}() needs a list or a map`)
  const cost = Math.max(1, node.end - node.start)
  return (facts) => {
    const value = list(facts)
    if (value === MISSING) return missing
    const elements = elementsOf(value)
    if (elements === undefined) throw failure
    // At most so many parts are evaluated for each element.
    facts.takeList(elements.length, cost)
    return facts.repeat(elements.length, () => run(elements, facts))
  }
}

function compileLoop(
  name: string,
  body: Expression,
  transform: Expression | undefined,
  scope: Scope,
): (elements: Elements, facts: ConditionFacts) => Value | typeof MISSING {
  if (name === 'map') {
    const filter = transform === undefined ? undefined : compileTruth(body, scope)
    const change = scope.compile(transform ?? body, scope)
    return (elements, facts) => mapElements(elements, facts, filter, change)
  }
  const test = compileTruth(body, scope)
  if (name === 'filter') return (elements, facts) => elements.filter((element) => holdsFor(element, facts, test))
  if (name === 'exists_one') {
    return (elements, facts) => elements.filter((element) => holdsFor(element, facts, test)).length === 1
  }
  const deciding = name === 'exists'
  return (elements, facts) => decideOver(elements, facts, test, deciding)
}

function holdsFor(element: unknown, facts: ConditionFacts, test: Predicate): boolean {
  facts.element = element
  return test(facts)
}

/** As for && and ||, an element that decides wins over one that fails. */
function decideOver(elements: Elements, facts: ConditionFacts, test: Predicate, deciding: boolean): boolean {
  let failure: unknown
  for (const element of elements) {
    try {
      if (holdsFor(element, facts, test) === deciding) return deciding
    } catch (error) {
      failure = weightier(failure, error)
    }
  }
  if (failure !== undefined) throw failure
  return !deciding
}

function mapElements(
  elements: Elements,
  facts: ConditionFacts,
  filter: Predicate | undefined,
  change: Evaluate,
): Value[] | typeof MISSING {
  const mapped: Value[] = []
  for (const element of elements) {
    facts.element = element
    if (filter !== undefined && !filter(facts)) continue
    const value = change(facts)
    if (value === MISSING) return MISSING
    mapped.push(value)
  }
  return mapped
}
