import { RuleDocumentError } from '../../src/ground/errors.js'
import { countOf } from '../../src/ground/number-text.js'
import type { Difference, FieldChanges } from '../../src/rules/exchange/difference.js'
import { exportRules, type ImportResult, importRules } from '../../src/rules/exchange/exchange.js'
import { asActor } from '../../src/rules/history/actor.js'
import type { OverrideEntry } from '../../src/rules/overrides/override.js'
import type { RuleEntry } from '../../src/rules/rule-fields.js'
import { type CommandContext, type CommandResult, commandActor } from './support/command.js'
import {
  commandSettings,
  type DatabaseOptions,
  withDatabaseToRead,
  withExistingDatabase,
} from './support/open-database.js'
import { readJson } from './support/read-json.js'

export async function exportFile(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  return withDatabaseToRead(
    settings,
    context,
    async ({ database }) => {
      const document = await exportRules(database, settings.clock)
      return { json: document, lines: JSON.stringify(document, null, 2).split('\n') }
    },
    'rules',
  )
}

interface RulesImportOptions extends DatabaseOptions {
  readonly dryRun?: true | undefined
  readonly keep?: true | undefined
}

export async function importFile(
  file: string,
  options: RulesImportOptions,
  context: CommandContext,
): Promise<CommandResult> {
  const { dryRun = false, keep = false } = options
  const settings = commandSettings(options, context)
  const document = await readJson(file, context)
  return withExistingDatabase(settings, context, async ({ database }): Promise<CommandResult> => {
    try {
      const result = await asActor(commandActor('rules import'), () =>
        importRules(database, settings.clock, document, { dryRun, keep }),
      )
      return { json: result, lines: importLines(result) }
    } catch (error) {
      if (error instanceof RuleDocumentError) return refusal(error)
      throw error
    }
  })
}

function refusal({ errors }: RuleDocumentError): CommandResult {
  const complaints = Object.entries(errors).map(([location, message]) => `${location}: ${message}`)
  return {
    json: { applied: false, errors },
    lines: [],
    failures: [
      ...complaints,
      `nothing was imported: ${countOf(complaints.length, 'place of the file is wrong', 'places of the file are wrong')}`,
    ],
  }
}

/** The most characters shown of a text. */
const SHOWN_LENGTH = 60

/** Returns the changes of an import, line by line, and a summary. */
export function importLines({ rules, overrides, expired, applied }: ImportResult): string[] {
  const ruleLines = differenceLines(rules, ruleLine, ({ name }) => `rule ${shown(name)}`)
  const overrideLines = differenceLines(overrides, overrideLine, overrideName)
  const created = rules.created.length + overrides.created.length
  const updated = rules.updated.length + overrides.updated.length
  const deleted = rules.deleted.length + overrides.deleted.length
  const counts = `${created} created, ${updated} updated, ${deleted} deleted, ${rules.unchanged + overrides.unchanged} unchanged.`
  return [
    ...ruleLines,
    ...overrideLines,
    ...(expired === 0 ? [] : [`Left out: ${countOf(expired, 'expired override')} of the file.`]),
    `${applied ? 'Imported' : 'Would be imported'}: ${counts}`,
    ...(applied ? [] : ['Nothing was written (dry run).']),
  ]
}

function differenceLines<Entry, Identity extends keyof Entry>(
  { created, updated, deleted }: Difference<Entry, Identity>,
  line: (entry: Entry) => string,
  name: (entry: Readonly<Pick<Entry, Identity>>) => string,
): string[] {
  return [
    ...created.map((entry) => `+ ${line(entry)}`),
    ...updated.map((entry) => `~ ${name(entry)}: ${changesText(entry.changes)}`),
    ...deleted.map((entry) => `- ${line(entry)}`),
  ]
}

function ruleLine(rule: RuleEntry): string {
  const {
    name,
    group,
    rate,
    counts,
    cost,
    unit,
    reserve,
    noticeAt,
    banAfter,
    banFor,
    pathPattern,
    method,
    condition,
    isActive,
    startsAt,
    endsAt,
  } = rule
  const counted = counts === 'requests' ? [] : [`counts ${counts}`]
  const costs = cost === 1 ? [] : [`cost ${cost}`]
  const units = unit === 'requests' ? [] : [`unit ${unit}`, `reserves ${reserve}`]
  const notices = noticeAt === '' ? [] : [`notices at ${noticeAt} %`]
  const bans = banAfter === 0 ? [] : [`bans for ${banFor} after ${banAfter}`]
  const groups = group === '' ? [] : [`group ${shown(group)}`]
  const methods = method === 'ALL' ? [] : [method]
  const conditions = condition === '' ? [] : [`if ${shown(condition)}`]
  const from = startsAt === null ? [] : [`from ${startsAt}`]
  const until = endsAt === null ? [] : [`until ${endsAt}`]
  const notActive = isActive ? [] : ['(not active)']
  return [
    `rule ${shown(name)}`,
    ...groups,
    rate,
    ...counted,
    ...costs,
    ...units,
    ...notices,
    ...bans,
    ...methods,
    pathPattern,
    ...conditions,
    ...from,
    ...until,
    ...notActive,
  ].join('  ')
}

function overrideLine({ client, effect, pathPattern, expiresAt }: OverrideEntry): string {
  const until = expiresAt === null ? [] : [`until ${expiresAt}`]
  return [overrideName({ client, pathPattern }), effect, ...until].join('  ')
}

function overrideName({ client, pathPattern }: Pick<OverrideEntry, 'client' | 'pathPattern'>): string {
  return `override ${shown(client)}${pathPattern === '' ? '' : ` ${pathPattern}`}`
}

function changesText<Entry>(changes: FieldChanges<Entry>): string {
  const pairs = Object.entries<readonly [unknown, unknown] | undefined>(changes)
  return pairs
    .flatMap(([field, pair]) => {
      if (pair === undefined) return []
      const [before, after] = pair.map((value) => shown(value, field === 'startsAt' ? 'always' : 'never'))
      return [`${field} ${before} → ${after}`]
    })
    .join(', ')
}

/** Returns a value for a line; in quotes where a text would otherwise be ambiguous. */
function shown(value: unknown, none = 'never'): string {
  if (typeof value !== 'string') return value === null ? none : String(value)
  const text = value.length > SHOWN_LENGTH ? `${value.slice(0, SHOWN_LENGTH)}…` : value
  return /^[\x21\x23-\x7e]+$/.test(text) ? text : JSON.stringify(text)
}
