import { RuleValidationError } from '../../src/errors.js'
import { asActor } from '../../src/history/actor.js'
import { OVERRIDES, overrideErrors } from '../../src/overrides/override.js'
import { spelled } from '../../src/rules/description.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandActor } from './support/command-actor.js'
import { parseLength } from './support/length.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { overrideClient } from './support/override-client.js'
import { overrideJson, overrideLine } from './support/override-lines.js'

interface OverrideAddOptions extends DatabaseOptions {
  readonly path?: string | undefined
  readonly for?: string | undefined
  readonly until?: string | undefined
  readonly note?: string | undefined
  readonly algorithm?: string | undefined
}

export async function run(
  given: string,
  effect: string,
  options: OverrideAddOptions,
  context: CommandContext,
): Promise<CommandResult> {
  const { path: pathPattern = '', note = '', algorithm } = options
  const settings = commandSettings(options, context)
  if (algorithm !== undefined && (effect === 'deny' || effect === 'allow')) {
    throw new UsageError(`--algorithm goes with a rate, and not with ${effect}`)
  }
  const fields = {
    client: overrideClient(given),
    effect,
    algorithm: algorithm ?? 'fixed_window',
    pathPattern,
    expiresAt: parseExpiry(options.for, options.until, settings.clock.now()),
    note,
  }
  const errors = overrideErrors(fields, 'new', settings.clock.now())
  if (Object.keys(errors).length > 0) throw new UsageError(new RuleValidationError(errors, [], 'override').message)
  const data = { ...fields, ...spelled(OVERRIDES.fields, fields) }
  return withExistingDatabase(settings, context, async ({ client }) => {
    const where = { client_pathPattern: { client: data.client, pathPattern } }
    const before = await client.rateLimitOverride.findUnique({ where, select: { id: true } })
    const row = await asActor(commandActor('override add'), () =>
      client.rateLimitOverride.upsert({ where, create: data, update: data }),
    )
    const nowMs = settings.clock.now()
    return {
      json: { replaced: before !== null, override: overrideJson(row, nowMs) },
      lines: [`${before === null ? 'Added' : 'Replaced'}: ${overrideLine(row, nowMs)}`],
    }
  })
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
