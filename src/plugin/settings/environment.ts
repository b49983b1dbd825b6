/** The environment variables of options. */
import { COUNTING_VARIABLES, type Variable } from '../../limiter/core/variables.js'
import { ALERT_SETTINGS } from '../../operations/alerts/channels/channels.js'
import type { RateLimitOptions } from './options.js'

const VARIABLES: Readonly<Partial<Record<keyof RateLimitOptions, Variable | { readonly variable: undefined }>>> = {
  ...COUNTING_VARIABLES,
  logEvents: { variable: 'RATELIMIT_LOG_EVENTS' },
  useDynamicRules: { variable: 'RATELIMIT_USE_DYNAMIC_RULES' },
  ruleCacheTimeout: { variable: 'RATELIMIT_RULE_CACHE_TIMEOUT' },
  events: {
    variable: 'RATELIMIT_EVENTS_DATABASE_URL',
    help: 'database of the event log and of usage (default: the same)',
  },
  eventSpool: { variable: 'RATELIMIT_EVENT_SPOOL', help: 'folder for events and usage while the database is away' },
  usage: { variable: 'RATELIMIT_USAGE' },
  keepUsageFor: { variable: 'RATELIMIT_KEEP_USAGE_FOR' },
  ...ALERT_SETTINGS,
}

const NAMES: ReadonlyMap<string, string> = new Map(
  Object.entries(VARIABLES).flatMap(([option, { variable }]) => (variable === undefined ? [] : [[option, variable]])),
)

/** Returns the names of all variables. */
export function variables(): Iterable<string> {
  return NAMES.values()
}

/** Returns the variable of an option; undefined where it has none. */
export function findVariable(option: string): string | undefined {
  return NAMES.get(option)
}

/** Returns what an option is called in the environment: its variable, or the option itself where it has none. */
export function variableFor(option: string): string {
  return findVariable(option) ?? option
}

/** Returns the variables of options and their help; options that have none are left out. */
export function environmentHelp(options: readonly (keyof RateLimitOptions)[]): [variable: string, help: string][] {
  return options.flatMap((option) => {
    const variable = VARIABLES[option]
    return variable?.variable === undefined ? [] : [[variable.variable, variable.help ?? '']]
  })
}
