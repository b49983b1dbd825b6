/** Parses conditions and checks their types. Only this module knows the library, and loads it with the first one. */
import type { ASTNode, Environment } from '@marcbachmann/cel-js'
import { loadModule } from '../../ground/package-root.js'
import { errorAt } from './failure.js'

export type Expression = ASTNode

/** Brackets, calls and fields within each other. */
const MAX_DEPTH = 64

/** What to write instead, by the code of the library's error. */
const REMEDIES: Readonly<Record<string, string>> = {
  '=': 'write == to compare',
  '&': 'write && for and',
  '|': 'write || for or',
  ...Object.fromEntries(['“', '”', '‘', '’', '`'].map((quote) => [quote, 'write \' or " around a text'])),
  invalid_macro_argument: "write the name of an element, then what to test: roles.exists(role, role == 'admin')",
  unexpected_token: 'a value is missing there, or one is too many',
  expected_token: 'a bracket, a comma or an operator is missing',
  unexpected_character: 'write && or || between two comparisons',
  unterminated_string: 'write \' or " at the end of the text as well',
  newline_in_string: 'write \\n',
  limit_exceeded: 'write less deep brackets, or two rules',
  reserved_identifier: "it is a word of the language: write user['…'] for a field of that name",
  no_such_overload:
    "compare values of one type: a text in quotes with a text, int(request.query['n']) or double(…) with a number",
  no_matching_overload: 'give it values of the right types',
  invalid_logical_operand: 'compare it, such as == true',
  invalid_condition_type: 'compare it, such as == true',
  cannot_index_type: 'only maps, lists and user have fields',
}

let environment: Environment | undefined

function openEnvironment(): Environment {
  const { Environment } = loadModule('@marcbachmann/cel-js') as typeof import('@marcbachmann/cel-js')
  return new Environment({ limits: { maxDepth: MAX_DEPTH }, homogeneousAggregateLiterals: false })
    .registerType('Request', {
      fields: {
        method: 'string',
        path: 'string',
        route: 'string',
        host: 'string',
        headers: 'map<string, string>',
        query: 'map<string, string>',
      },
    })
    .registerType('Client', { fields: { ip: 'string' } })
    .registerVariable('request', 'Request')
    .registerVariable('client', 'Client')
    .registerVariable('user', 'dyn')
    .registerFunction('int(google.protobuf.Timestamp): int', isNotEvaluated)
    .registerFunction('string(google.protobuf.Timestamp): string', isNotEvaluated)
    .registerFunction('timestamp(google.protobuf.Timestamp): google.protobuf.Timestamp', isNotEvaluated)
    .registerFunction('matches(string, string): bool', isNotEvaluated)
    .registerFunction('inNetwork(string, string): bool', isNotEvaluated)
}

function isNotEvaluated(): never {
  throw new Error('The library checks types only')
}

/** A parsed condition. */
export interface ParsedExpression {
  readonly root: Expression
  /**
   * Checks the types.
   *
   * @throws Error that names the place
   */
  check(): void
}

/** @throws Error that names the place and the remedy, where a text is no expression */
export function parseExpression(text: string): ParsedExpression {
  environment ??= openEnvironment()
  try {
    const parsed = environment.parse(text)
    return { root: parsed.ast, check: () => checkTypes(parsed.ast, parsed.check()) }
  } catch (error) {
    throw explained(text, error)
  }
}

function checkTypes(root: Expression, { valid, type = '', error }: ReturnType<Environment['check']>): void {
  if (!valid) throw explained(root.input, error)
  if (type !== 'bool' && type !== 'dyn') {
    throw errorAt({ input: root.input, pos: root.start }, `is a ${type}, not true or false: compare it, such as == 'x'`)
  }
}

function explained(input: string, error: unknown): Error {
  const { code, summary, pos } = describe(error)
  const problem = summary.charAt(0).toLowerCase() + summary.slice(1)
  const remedy = (code === 'unexpected_character' && REMEDIES[input.charAt(pos)]) || REMEDIES[code]
  return errorAt({ input, pos }, remedy === undefined ? problem : `${problem}: ${remedy}`)
}

function describe(error: unknown): { code: string; summary: string; pos: number } {
  const { ParseError, TypeError: TypeCheckError } = loadModule(
    '@marcbachmann/cel-js',
  ) as typeof import('@marcbachmann/cel-js')
  if (!(error instanceof ParseError || error instanceof TypeCheckError)) {
    return { code: '', summary: 'is no expression', pos: 0 }
  }
  return { code: error.code, summary: error.summary, pos: error.node?.pos ?? error.range?.start ?? 0 }
}
