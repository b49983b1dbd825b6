import { RuleValidationError } from '../../src/errors.js'
import { parseRate } from '../../src/limiter/rate.js'
import { asActor } from '../../src/rules/actor.js'
import { normalOverride, overrideErrors } from '../../src/rules/override.js'
import { type CommandResult, defineCommand } from './support/command.js'
import { commandActor } from './support/command-actor.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { overrideClient } from './support/override-client.js'
import { overrideJson, overrideLine } from './support/override-lines.js'
import { UsageError } from './support/usage-error.js'

export const overrideAdd = defineCommand({
  name: 'override add',
  summary: 'Refuse a client, let it through, or give it a rate of its own',
  description: [
    'Servers that use rules (RATELIMIT_USE_DYNAMIC_RULES) obey within two seconds. An override goes before every rule; an override of the same client and path is replaced.',
    'Several may hold for one request: a refusal goes before a pass before a rate, then a user before an address before a network.',
  ],
  options: {
    client: {
      type: 'operand',
      help: 'an address, a network such as 10.0.0.0/8, or user:<id>',
    },
    effect: { type: 'operand', help: 'deny, allow, or a rate such as 20/m' },
    path: { type: 'text', help: 'regular expression (RE2): only for paths that it is found in' },
    for: { type: 'text', help: 'how long it holds: 30m, 2h, 7d; at most 366d' },
    until: { type: 'text', help: 'until when it holds: 2027-01-31T12:00:00Z' },
    note: { type: 'text', help: 'why' },
    algorithm: { type: 'text', help: 'how a rate counts: fixed_window unless given' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit override add 203.0.113.7 deny --for 2h --note "scrapes the catalogue"',

  async run({ client: given, effect, path: pathPattern = '', for: length, until, note = '', algorithm, schema }) {
    const settings = commandSettings(schema)
    if (algorithm !== undefined && (effect === 'deny' || effect === 'allow')) {
      throw new UsageError(`--algorithm goes with a rate, and not with ${effect}`)
    }
    const expiresAt = expiryOf(length, until, settings.clock.now())
    const fields = {
      client: overrideClient(given),
      effect,
      algorithm: algorithm ?? 'fixed_window',
      pathPattern,
      expiresAt,
      note,
    }
    const errors = overrideErrors(fields, 'new', settings.clock.now())
    if (Object.keys(errors).length > 0) throw new UsageError(new RuleValidationError(errors, [], 'override').message)
    const data = { ...fields, ...normalOverride(fields) }
    return withExistingDatabase(settings, async ({ client }): Promise<CommandResult> => {
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
  },
})

/** @throws UsageError for what is no length of time, or no moment */
function expiryOf(length: string | undefined, until: string | undefined, nowMs: number): Date | null {
  if (length !== undefined && until !== undefined) throw new UsageError('give either --for or --until')
  if (length !== undefined) return new Date(nowMs + lengthMs(length))
  if (until === undefined) return null
  const moment = /^\d{4}-\d\d-\d\d(?:T|$)/.test(until) ? new Date(until) : new Date(Number.NaN)
  const day = new Date(until.slice(0, 'yyyy-mm-dd'.length))
  // JavaScript takes the 31st of February for one of March.
  if (Number.isNaN(moment.getTime()) || !until.startsWith(day.toISOString().slice(0, 'yyyy-mm-dd'.length))) {
    throw new UsageError(`--until is ${JSON.stringify(until)}: give a moment such as 2027-01-31T12:00:00Z`)
  }
  return moment
}

/** The periods of rates are lengths of time. */
function lengthMs(length: string): number {
  try {
    return parseRate(`1/${length}`).periodMs
  } catch {
    throw new UsageError(`--for is ${JSON.stringify(length)}: give 30m, 2h or 7d, at most 366d`)
  }
}
