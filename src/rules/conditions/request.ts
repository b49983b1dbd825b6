/** Compiles what conditions read of `request` and `client`. Headers and parameters are read by name, without a map. */
import type { Expression } from './cel.js'
import type { ConditionFacts } from './condition-facts.js'
import { errorAt } from './failure.js'
import type { Evaluate } from './scope.js'
import { MISSING } from './values.js'

interface TextMap {
  read(facts: ConditionFacts, name: string): string | undefined
  names(facts: ConditionFacts): readonly string[]
}

const HEADERS: TextMap = { read: (facts, name) => facts.header(name), names: (facts) => facts.headerNames() }
const QUERY: TextMap = { read: (facts, name) => facts.parameter(name), names: (facts) => facts.parameterNames() }
const MAPS: Readonly<Record<string, TextMap>> = { headers: HEADERS, query: QUERY }

const TEXTS: Readonly<Record<string, Evaluate>> = {
  'request.method': (facts) => facts.method,
  'request.path': (facts) => facts.path,
  'request.route': (facts) => facts.route,
  'request.host': (facts) => facts.host,
  'client.ip': (facts) => facts.ip,
}

/** Compiles `request.headers['x-plan']`, `request.query.page` and the like; undefined for other parts. */
export function requestMember(node: Expression, compileKey: (key: Expression) => Evaluate): Evaluate | undefined {
  if (node.op !== '.' && node.op !== '[]') return undefined
  const [of, key] = node.args
  const map = textMapFor(of)
  if (map === undefined) return undefined
  const { read } = map
  const name = typeof key === 'string' ? key : literalText(key)
  if (name !== undefined) {
    if (map === HEADERS) validateHeaderName(node, name)
    return (facts) => read(facts, name) ?? MISSING
  }
  if (typeof key === 'string') return undefined
  const toName = compileKey(key)
  return (facts) => {
    const asked = toName(facts)
    return typeof asked === 'string' ? (read(facts, asked) ?? MISSING) : MISSING
  }
}

/** Compiles `request.method`, and the maps as a whole; undefined for other parts. */
export function requestValue(node: Expression): Evaluate | undefined {
  const map = textMapFor(node)
  if (map !== undefined) return (facts) => toMap(map, facts)
  const [of, field] = namedField(node)
  if (of !== 'request' && of !== 'client') return undefined
  const text = Object.hasOwn(TEXTS, `${of}.${field}`) ? TEXTS[`${of}.${field}`] : undefined
  if (text !== undefined) return text
  throw errorAt(
    node,
    of === 'client'
      ? 'is no field of client, which has ip'
      : 'is no field of request, which has method, path, route, host, headers and query',
  )
}

/** Returns how to ask whether `request.headers` or `request.query` has a name; undefined for other parts. */
export function requestNames(node: Expression): ((facts: ConditionFacts, name: string) => boolean) | undefined {
  const map = textMapFor(node)
  return map === undefined ? undefined : (facts, name) => map.read(facts, name) !== undefined
}

export function literalText(node: Expression): string | undefined {
  return node.op === 'value' && typeof node.args === 'string' ? node.args : undefined
}

function validateHeaderName(node: Expression, name: string): void {
  if (name === name.toLowerCase()) return
  throw errorAt(node, `names of headers are in lower case: write ${JSON.stringify(name.toLowerCase())}`)
}

function textMapFor(node: Expression): TextMap | undefined {
  const [of, field] = namedField(node)
  return of === 'request' && Object.hasOwn(MAPS, field) ? MAPS[field] : undefined
}

/** Returns `['request', 'path']` for `request.path` and `request['path']`. */
function namedField(node: Expression): readonly [of: string, field: string] {
  if (node.op !== '.' && node.op !== '[]') return ['', '']
  const [of, key] = node.args
  const field = typeof key === 'string' ? key : literalText(key)
  return of.op === 'id' && field !== undefined ? [of.args, field] : ['', '']
}

function toMap({ read, names }: TextMap, facts: ConditionFacts): ReadonlyMap<string, string> {
  const all = names(facts)
  facts.takeList(all.length)
  return new Map(
    all.flatMap((name) => {
      const value = read(facts, name)
      return value === undefined ? [] : [[name, value] as const]
    }),
  )
}
