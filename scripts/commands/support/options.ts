import { parseArgs } from 'node:util'
import { MAX_BATCH_SIZE } from '../../../src/db/batches.js'
import { didYouMean } from './suggest.js'
import { UsageError } from './usage-error.js'

interface Flag {
  readonly type: 'flag'
  readonly help: string
}

interface Text {
  readonly type: 'text'
  readonly help: string
  readonly default?: string
}

interface Integer {
  readonly type: 'integer'
  readonly help: string
  /** What is counted, in the plural: `days`. */
  readonly of: string
  readonly min: number
  readonly max: number
  readonly default?: number
}

/** A word without dashes, which has to be given; several in the order in which they are defined. */
interface Operand {
  readonly type: 'operand'
  readonly help: string
}

/** What a command takes by name: options, without the dashes, and operands. */
export type Options = Readonly<Record<string, Flag | Text | Integer | Operand>>

type ValueOf<Option extends Options[string]> = {
  flag: boolean
  text: string
  integer: number
  operand: string
}[Option['type']]

export type OptionValues<Given extends Options> = {
  readonly [Name in keyof Given]: Given[Name] extends Flag | Operand | { readonly default: unknown }
    ? ValueOf<Given[Name]>
    : ValueOf<Given[Name]> | undefined
}

export interface ParsedOptions<Given extends Options> {
  readonly values: OptionValues<Given>
  readonly json: boolean
  readonly help: boolean
}

/** Of commands that delete. */
export const BATCH_SIZE = {
  type: 'integer',
  of: 'rows',
  min: 1,
  max: MAX_BATCH_SIZE,
  default: 1000,
  help: 'rows that one statement deletes',
} as const satisfies Integer

/** What every command takes besides its own options. */
const COMMON_OPTIONS: Options = {
  json: { type: 'flag', help: 'print one JSON object instead of text' },
  help: { type: 'flag', help: 'show this help (-h)' },
}

/** All options of a command, in the order its help shows them. */
export function withCommonOptions(options: Options): Options {
  return { ...options, ...COMMON_OPTIONS }
}

/** The largest integer of the databases' `integer` columns: as good as no limit. */
export const MAX_INTEGER = 2_147_483_647
/** A hundred years: dates stay within what the databases can hold. */
export const MAX_DAYS = 36_500

/**
 * Reads the arguments of a command. With `help` among them nothing else is looked at.
 *
 * @throws UsageError for an unknown option, a wrong value, a stray word or a missing one
 */
export function parseOptions<Given extends Options>(own: Given, args: readonly string[]): ParsedOptions<Given> {
  const { options, operands } = partsOf(withCommonOptions(own))
  const tokens = tokenize(options, args)
  const values: Record<string, boolean | string | number | undefined> = {}
  for (const [name, option] of Object.entries(options)) values[name] = option.type === 'flag' ? false : option.default
  const help = tokens.some((token) => token.kind === 'option' && token.name === 'help')
  for (const token of help ? [] : tokens) {
    if (token.kind === 'positional') {
      const operand = operands.shift()
      if (operand === undefined) throw new UsageError(`unexpected argument ${JSON.stringify(token.value)}`)
      values[operand] = token.value
    }
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (option === undefined) throw unknownOption(token.rawName, Object.keys(options))
    values[token.name] = parseValue(token.name, option, token.value)
  }
  if (operands.length > 0 && !help) throw new UsageError(`no ${operands.join(', no ')} given`)
  // Every name of `own` has a value of its type by now, which an index signature cannot express.
  return { values: values as OptionValues<Given>, json: values.json === true, help }
}

type NamedOptions = Readonly<Record<string, Exclude<Options[string], Operand>>>

/** Parts what has dashes from the names of what has none. */
export function partsOf(given: Options): { options: NamedOptions; operands: string[] } {
  const options: Record<string, NamedOptions[string]> = {}
  const operands: string[] = []
  for (const [name, option] of Object.entries(given)) {
    if (option.type === 'operand') operands.push(name)
    else options[name] = option
  }
  return { options, operands }
}

/** Splits the arguments; their meaning is checked here rather than by Node, whose messages name no remedy. */
function tokenize(options: NamedOptions, args: readonly string[]) {
  const config: Record<string, { type: 'boolean' | 'string'; short?: string }> = {}
  for (const [name, { type }] of Object.entries(options))
    config[name] = { type: type === 'flag' ? 'boolean' : 'string' }
  config.help = { type: 'boolean', short: 'h' }
  const parsed = parseArgs({ args: [...args], options: config, strict: false, tokens: true })
  return parsed.tokens ?? []
}

function unknownOption(rawName: string, known: readonly string[]): UsageError {
  const hint = didYouMean(
    rawName,
    known.map((name) => `--${name}`),
  )
  return new UsageError(`unknown option ${JSON.stringify(rawName)}${hint}`)
}

function parseValue(name: string, option: NamedOptions[string], value: string | undefined): boolean | string | number {
  if (option.type === 'flag') return parseFlag(name, value)
  if (option.type === 'integer') return parseInteger(name, option, value)
  if (value === undefined) throw new UsageError(`--${name} has no value: give a text`)
  return value
}

function parseFlag(name: string, value: string | undefined): true {
  if (value !== undefined) throw new UsageError(`--${name} takes no value: give --${name} alone`)
  return true
}

function parseInteger(name: string, { of, min, max }: Integer, value: string | undefined): number {
  const range = `give a whole number of ${of}, ${min} to ${max}`
  if (value === undefined) throw new UsageError(`--${name} has no value: ${range}`)
  const number = /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN
  if (!(number >= min && number <= max)) throw new UsageError(`--${name} is ${JSON.stringify(value)}: ${range}`)
  return number
}
