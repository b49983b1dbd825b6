import { isIP } from 'node:net'
import { PSEUDONYM } from '../../src/clients/address-privacy.js'
import { clientText, parseOverrideClient } from '../../src/clients/override-client.js'
import type { Database } from '../../src/database/database.js'
import { type SqlValue, type SqlWork, selectedColumns, toColumn } from '../../src/database/dialect.js'
import { errorMessage, RuleValidationError } from '../../src/ground/errors.js'
import { countOf } from '../../src/ground/number-text.js'
import type { Settings } from '../../src/plugin/settings/resolve.js'
import { fieldNames, spelled, type Values } from '../../src/rules/description.js'
import { asActor } from '../../src/rules/history/actor.js'
import { OVERRIDES, type OverrideEntry, overrideErrors, parseOverride } from '../../src/rules/overrides/override.js'
import { changeRows, type LockedTable } from '../../src/rules/table.js'
import { type CommandContext, type CommandResult, commandActor, UsageError } from './support/command.js'
import {
  commandSettings,
  type DatabaseOptions,
  withDatabaseToRead,
  withExistingDatabase,
} from './support/open-database.js'
import { parseLength } from './support/option-values.js'

type Overrides = LockedTable<typeof OVERRIDES.fields, 'client' | 'pathPattern'>

interface OverrideAddOptions extends DatabaseOptions {
  readonly path?: string | undefined
  readonly for?: string | undefined
  readonly until?: string | undefined
  readonly note?: string | undefined
  readonly algorithm?: string | undefined
}

export async function add(
  typed: string,
  effect: string,
  options: OverrideAddOptions,
  context: CommandContext,
): Promise<CommandResult> {
  const { path: pathPattern = '', note = '', algorithm } = options
  const settings = commandSettings(options, context)
  if (algorithm !== undefined && !/^\d/.test(effect)) {
    throw new UsageError(`--algorithm goes with a rate, and not with ${effect}`)
  }
  const fields = {
    client: overrideClient(typed),
    effect,
    algorithm: algorithm ?? 'fixed_window',
    pathPattern,
    expiresAt: parseExpiry(options.for, options.until, settings.clock.now()),
    note,
  }
  const errors = overrideErrors(fields, 'new', settings.clock.now())
  if (Object.keys(errors).length > 0) throw new UsageError(new RuleValidationError(errors, [], 'override').message)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const replaced = await asActor(commandActor('override add'), () =>
      changeRows(database, OVERRIDES, settings.clock.now(), (overrides) => put(overrides, fields)),
    )
    const identity = [clientText(parseOverrideClient(fields.client)), pathPattern]
    const [row] = await readOverrides(database, 'WHERE client = $1 AND path_pattern = $2', identity)
    if (row === undefined) throw new Error('The override was removed meanwhile')
    const nowMs = settings.clock.now()
    return {
      json: { replaced, override: overrideJson(row, nowMs) },
      lines: [`${replaced ? 'Replaced' : 'Added'}: ${overrideLine(row, nowMs)}`],
    }
  })
}

/** Returns whether an override was replaced. */
function* put(overrides: Overrides, fields: Values): SqlWork<boolean> {
  const standing = yield* overrides.findSame({ ...fields, ...spelled(OVERRIDES.fields, fields) })
  if (standing === undefined) yield* overrides.create(fields)
  else yield* overrides.update(standing, fields)
  return standing !== undefined
}

/** @throws UsageError for an invalid duration or moment */
function parseExpiry(length: string | undefined, until: string | undefined, nowMs: number): Date | null {
  if (length !== undefined) return new Date(nowMs + parseLength('--for', length))
  if (until === undefined) return null
  const moment = /^\d{4}-\d\d-\d\d(?:T|$)/.test(until) ? new Date(until) : new Date(Number.NaN)
  const day = new Date(until.slice(0, 'yyyy-mm-dd'.length))
  // JavaScript turns the 31st of February into a day of March.
  if (Number.isNaN(moment.getTime()) || !until.startsWith(day.toISOString().slice(0, 'yyyy-mm-dd'.length))) {
    throw new UsageError(`--until is ${JSON.stringify(until)}: give a moment such as 2027-01-31T12:00:00Z`)
  }
  return moment
}

interface OverrideListOptions extends DatabaseOptions {
  readonly all?: true | undefined
}

export async function list(options: OverrideListOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  return withDatabaseToRead(
    settings,
    context,
    async ({ database }) => {
      const nowMs = settings.clock.now()
      const unexpired = `WHERE expires_at IS NULL OR expires_at > ${database.dialect.fromMs('$1')}`
      const rows = await (options.all ? readOverrides(database, '', []) : readOverrides(database, unexpired, [nowMs]))
      return {
        json: { overrides: rows.map((row) => overrideJson(row, nowMs)) },
        lines: [...rows.map((row) => overrideLine(row, nowMs)), `${countOf(rows.length, 'override')}.`],
      }
    },
    'rules',
  )
}

type Moment = 'expiresAt' | 'createdAt' | 'updatedAt'
type StoredRow = Omit<OverrideRow, Moment> & Readonly<Record<Moment, number | string | null>>

/** Reads overrides, also those into which raw SQL wrote an invalid moment. */
async function readOverrides(
  { dialect, query }: Database,
  where: string,
  parameters: readonly SqlValue[],
): Promise<OverrideRow[]> {
  const rows = await query<StoredRow>(
    `SELECT ${selectedColumns(OVERRIDE_ROW)} FROM ${dialect.table(OVERRIDES.table)} ${where}
     ORDER BY ${OVERRIDES.order(dialect)}`,
    parameters,
  )
  return rows.map((row) => ({
    ...row,
    expiresAt: row.expiresAt === null ? null : new Date(Number(row.expiresAt)),
    createdAt: new Date(Number(row.createdAt)),
    updatedAt: new Date(Number(row.updatedAt)),
  }))
}

interface OverrideRemoveOptions extends DatabaseOptions {
  readonly path?: string | undefined
}

export async function remove(
  typed: string,
  options: OverrideRemoveOptions,
  context: CommandContext,
): Promise<CommandResult> {
  const { path: pathPattern = '' } = options
  const settings = commandSettings(options, context)
  const names = spellings(typed, settings)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const theirs = database.dialect.isOneOf('client', '$1', 'text')
    const count = await asActor(commandActor('override remove'), () =>
      changeRows(database, OVERRIDES, settings.clock.now(), (overrides) =>
        overrides.delete(`${theirs} AND path_pattern = $2`, [JSON.stringify(names), pathPattern]),
      ),
    )
    if (count > 0)
      return { json: { removed: count }, lines: [`Removed ${countOf(count, 'override')} of ${names.at(-1)}.`] }
    const others = await readOverrides(database, `WHERE ${theirs}`, [JSON.stringify(names)])
    return { json: { removed: 0 }, lines: [], failures: [missing(names, pathPattern, others)] }
  })
}

/**
 * Returns the possible spellings of a client, including the typed one, since raw SQL may have written any, and the
 * pseudonym that bans have. The usual one is the last.
 */
function spellings(typed: string, { privacy }: Settings): string[] {
  const name = overrideClient(typed)
  const pseudonym = privacy === undefined ? [] : [privacy.toCounted(name)]
  try {
    return [...new Set([...pseudonym, typed, name, clientText(parseOverrideClient(name))])]
  } catch {
    return [...new Set([...pseudonym, typed, name])]
  }
}

function missing(
  names: readonly string[],
  pathPattern: string,
  others: readonly { readonly pathPattern: string }[],
): string {
  const where = pathPattern === '' ? 'for every path' : `with the path ${JSON.stringify(pathPattern)}`
  const paths = others.map((other) =>
    other.pathPattern === '' ? 'without --path' : `with --path ${JSON.stringify(other.pathPattern)}`,
  )
  const remedy = paths.length === 0 ? 'see override list' : `give it ${paths.join(' or ')}`
  return `there is no override of ${names.at(-1)} ${where}: ${remedy}`
}

export interface OverrideRow extends Omit<OverrideEntry, 'algorithm' | 'expiresAt'> {
  readonly id: number
  readonly algorithm: string
  /** An invalid Date where raw SQL wrote something else. */
  readonly expiresAt: Date | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** The shown fields of a row. */
export const OVERRIDE_ROW = ['id', ...fieldNames(OVERRIDES.fields), 'createdAt', 'updatedAt'] as const

/** Returns whether an override holds, and if not, why. */
function overrideState(row: OverrideRow, nowMs: number): 'active' | 'expired' | 'not valid' {
  if (invalidity(row) !== undefined) return 'not valid'
  return row.expiresAt !== null && row.expiresAt.getTime() <= nowMs ? 'expired' : 'active'
}

export function overrideJson(row: OverrideRow, nowMs: number): object {
  const fields = OVERRIDE_ROW.map((name) => [toColumn(name), row[name]])
  return { ...Object.fromEntries(fields), state: overrideState(row, nowMs) }
}

export function overrideLine(row: OverrideRow, nowMs: number): string {
  const { client, effect, algorithm, pathPattern, expiresAt, note } = row
  const state = overrideState(row, nowMs)
  return [
    client,
    effect,
    ...(algorithm === 'fixed_window' || effect === 'deny' || effect === 'allow' ? [] : [algorithm]),
    ...(pathPattern === '' ? [] : [`path ${pathPattern}`]),
    ...(expiresAt === null || Number.isNaN(expiresAt.getTime()) ? [] : [`until ${expiresAt.toISOString()}`]),
    ...(note === '' ? [] : [JSON.stringify(note)]),
    ...(state === 'active' ? [] : [`(${invalidity(row) ?? state})`]),
  ].join('  ')
}

/** Returns why a row that raw SQL wrote is invalid. */
function invalidity(row: OverrideRow): string | undefined {
  if (Number.isNaN(row.expiresAt?.getTime())) return 'Invalid override: expiresAt: is not a valid moment'
  try {
    parseOverride({ ...row, expiresAt: row.expiresAt?.getTime() ?? null })
    return undefined
  } catch (error) {
    return errorMessage(error)
  }
}

/** Returns the client of an override as typed; a bare address, network or pseudonym gets its `ip:`, since it is unambiguous. */
export function overrideClient(text: string): string {
  const trimmed = text.trim()
  const isAddress = isIP(trimmed.split('/')[0] ?? '') !== 0 || PSEUDONYM.test(trimmed)
  return isAddress ? `ip:${trimmed}` : trimmed
}
