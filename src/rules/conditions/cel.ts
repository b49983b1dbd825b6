/**
 * Parses conditions, checks their types, and evaluates them. Only this module knows the library, and loads it with the
 * first condition.
 */
import type { ASTNode, Environment, EvaluationError } from '@marcbachmann/cel-js'
import { loadModule } from '../../ground/package-root.js'
import { ConditionFailure, describeAt, errorAt } from './failure.js'

export type Expression = ASTNode

/** Brackets, calls and fields within each other. */
const MAX_DEPTH = 64

/** The advice by the code of the library's error. */
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

let library: typeof import('@marcbachmann/cel-js') | undefined

function loadLibrary(): typeof import('@marcbachmann/cel-js') {
  library ??= loadModule('@marcbachmann/cel-js') as typeof import('@marcbachmann/cel-js')
  return library
}

/** The library would look for a promise otherwise. */
const AT_ONCE = { async: false }

let environment: Environment | undefined

function openEnvironment(): Environment {
  const { Environment } = loadLibrary()
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
    .registerType('Client', { fields: { ip: 'string', country: 'string', asn: 'int' } })
    .registerVariable('request', 'Request')
    .registerVariable('client', 'Client')
    .registerVariable('user', 'dyn')
    .registerFunction('int(google.protobuf.Timestamp): int', isReplaced, AT_ONCE)
    .registerFunction('timestamp(google.protobuf.Timestamp): google.protobuf.Timestamp', isReplaced, AT_ONCE)
    .registerFunction('matches(string, string): bool', isReplaced, AT_ONCE)
    .registerFunction('inNetwork(string, string): bool', isReplaced, AT_ONCE)
    .registerFunction('inList(string, string): bool', isReplaced, AT_ONCE)
    .registerFunction('string(google.protobuf.Timestamp): string', formatTimestamp, AT_ONCE)
}

function isReplaced(): never {
  throw new Error('The library checks the types of this function only')
}

/** The fraction only where there is one, as in CEL. */
function formatTimestamp(moment: Date): string {
  return moment.toISOString().replace(/\.?0*Z$/, 'Z')
}

/** An evaluator of the parts of a condition. */
interface Evaluator {
  run(part: Expression | Part, context: Context): unknown
}

/** The surroundings of a part: the element of a macro. */
interface Context {
  getCheckedValue(evaluator: Evaluator, part: Expression): unknown
}

export type Evaluate = (evaluator: Evaluator, part: Expression, context: Context) => unknown

/** A part of this package's around one of the library's. */
interface Part {
  check(
    checker: { check(part: Expression | Part, context: unknown): unknown },
    part: unknown,
    context: unknown,
  ): unknown
  evaluate(evaluator: Evaluator, part: unknown, context: Context): unknown
}

/** Replaces what a part does. The library calls `evaluate` of each, which its types do not tell. */
export function replaceEvaluation(node: Expression, evaluate: Evaluate): void {
  Object.assign(node, { evaluate })
}

/** Takes the work of a macro. */
export interface MacroWork {
  /** Returns whether what is done for each element adds up. */
  begin(list: unknown): boolean
  /** Takes the work of an element of those, before it is evaluated. */
  beginElement(): void
  /** Takes the failure of an element of those. */
  fail(error: unknown): void
}

/** Puts the work of a macro before what it goes through, and before what it does for each element. */
export function takeMacroWork(node: Expression, work: MacroWork): void {
  // The library's types do not tell what it makes of a macro.
  const args = (node as unknown as MacroNode).meta.alternate?.args
  // The type checker refuses a macro with too many arguments.
  if (args === undefined) return
  const { iterable, step } = args
  let addsUp = false
  args.iterable = {
    check: (checker, _part, context) => checker.check(iterable, context),
    evaluate(evaluator, _part, context) {
      const list = evaluator.run(iterable, context)
      addsUp = work.begin(list)
      return list
    },
  }
  args.step = {
    check: (checker, _part, context) => checker.check(step, context),
    evaluate(evaluator, _part, context) {
      if (!addsUp) return evaluator.run(step, context)
      work.beginElement()
      try {
        return evaluator.run(step, context)
      } catch (error) {
        work.fail(error)
        throw error
      }
    },
  }
}

interface MacroNode {
  readonly meta: { readonly alternate?: { readonly args: { iterable: Expression | Part; step: Expression | Part } } }
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
  /** Returns the value, or throws the library's error. The types have been checked. */
  evaluate(): unknown
}

/** @throws Error that names the place and the remedy, where a text is no expression */
export function parseExpression(text: string): ParsedExpression {
  environment ??= openEnvironment()
  try {
    const parsed = environment.parse(text)
    return { root: parsed.ast, check: () => checkTypes(parsed.ast, parsed.check()), evaluate: parsed }
  } catch (error) {
    throw new Error(explainError(text, error))
  }
}

function checkTypes(root: Expression, { valid, type = '', error }: ReturnType<Environment['check']>): void {
  if (!valid) throw new Error(explainError(root.input, error))
  if (type !== 'bool' && type !== 'dyn') {
    throw errorAt(
      { input: root.input, pos: root.start },
      `is ${/^[aeiou]/.test(type) ? 'an' : 'a'} ${type}, not true or false: compare it, such as == 'x'`,
    )
  }
}

/** Returns the failure for an error of the library's evaluation; any other error as it is. */
export function toFailure(input: string, error: unknown): unknown {
  return isLibraryError(error) ? new ConditionFailure(explainError(input, error)) : error
}

function explainError(input: string, error: unknown): string {
  const { code, summary, pos } = describe(error)
  const problem = (summary.charAt(0).toLowerCase() + summary.slice(1))
    .replace(/\bdyn<(\w+)>/g, '$1')
    // The library names the first half of a character that has two.
    .replace(/[\ud800-\udbff]$/, String.fromCodePoint(input.codePointAt(pos) ?? 0))
  const remedy = (code === 'unexpected_character' && REMEDIES[input.charAt(pos)]) || REMEDIES[code]
  return describeAt({ input, pos }, remedy === undefined ? problem : `${problem}: ${remedy}`)
}

function describe(error: unknown): { code: string; summary: string; pos: number } {
  if (!isLibraryError(error)) return { code: '', summary: 'is not an expression', pos: 0 }
  return { code: error.code, summary: error.summary, pos: error.node?.pos ?? error.range?.start ?? 0 }
}

/** All errors of the library have the same fields. */
function isLibraryError(error: unknown): error is EvaluationError {
  const { EvaluationError, ParseError, TypeError: TypeCheckError } = loadLibrary()
  return error instanceof EvaluationError || error instanceof ParseError || error instanceof TypeCheckError
}
