/** The parts of `request` and `client` that conditions read. Headers and parameters are read by name, without a map. */
import type { GeoFileKind } from '../../clients/geo.js'
import type { Expression } from './cel.js'
import { type ConditionFacts, currentFacts } from './condition-facts.js'
import { errorAt } from './failure.js'
import { literalText } from './functions.js'
import { MapView } from './values.js'

/** A field of the request that is a text or a number, or the headers or the query. */
type RequestField = RequestValue | RequestMap

interface RequestValue {
  readonly kind: 'value'
  /** The file that knows it; undefined where the request has it. */
  readonly geo?: GeoFileKind
  read(facts: ConditionFacts): string | bigint
}

interface RequestMap {
  readonly kind: 'map'
  /** The values that were sent, which are read by name. */
  readonly view: MapView
  /** @throws Error for a name that none can have */
  validateName(node: Expression, name: string): void
}

const FIELDS: Readonly<Record<string, RequestField>> = {
  'request.method': { kind: 'value', read: (facts) => facts.method },
  'request.path': { kind: 'value', read: (facts) => facts.path },
  'request.route': { kind: 'value', read: (facts) => facts.route },
  'request.host': { kind: 'value', read: (facts) => facts.host },
  'request.headers': {
    kind: 'map',
    view: new MapView(
      (name) => (typeof name === 'string' ? currentFacts().header(name) : undefined),
      () => currentFacts().headerNames(),
    ),
    validateName: validateHeaderName,
  },
  'request.query': {
    kind: 'map',
    view: new MapView(
      (name) => (typeof name === 'string' ? currentFacts().parameter(name) : undefined),
      () => currentFacts().parameterNames(),
    ),
    validateName: () => {},
  },
  'client.ip': { kind: 'value', read: (facts) => facts.ip },
  'client.country': { kind: 'value', geo: 'country', read: (facts) => facts.geo.country(facts.ip) },
  'client.asn': { kind: 'value', geo: 'asn', read: (facts) => facts.geo.operator(facts.ip).asn },
}

/**
 * Returns how to read `request.method` and the like; undefined for other parts.
 *
 * @throws Error for a field that there is not
 */
export function requestField(node: Expression): RequestField | undefined {
  if (node.op !== '.' && node.op !== '[]') return undefined
  const [object, key] = node.args
  const field = typeof key === 'string' ? key : literalText(key)
  if (object.op !== 'id' || (object.args !== 'request' && object.args !== 'client') || field === undefined)
    return undefined
  const name = `${object.args}.${field}`
  if (Object.hasOwn(FIELDS, name)) return FIELDS[name]
  throw errorAt(
    node,
    object.args === 'client'
      ? 'is not a field of client: its fields are ip, country and asn'
      : 'is not a field of request: its fields are method, path, route, host, headers and query',
  )
}

function validateHeaderName(node: Expression, name: string): void {
  if (name === name.toLowerCase()) return
  throw errorAt(node, `names of headers are in lower case: write ${JSON.stringify(name.toLowerCase())}`)
}
