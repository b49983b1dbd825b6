import { errorMessage, InvalidSettingError } from '../../src/ground/errors.js'
import type { Explanation } from '../../src/http/explain/explain.js'
import { type ExplainedLimit, withoutStanding } from '../../src/http/explain/explained-limit.js'
import { variableFor } from '../../src/plugin/settings/environment.js'
import { explanationSentence } from '../../src/staff/dashboard/explain-page.js'
import { formatCount, lowerFirst, rateWords, visible } from '../../src/staff/dashboard/format.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions } from './support/open-database.js'
import { withLimiter, withRules } from './support/open-limiter.js'
import { tableLines } from './support/terminal.js'

interface ExplainCommandOptions extends DatabaseOptions {
  readonly method: string
  readonly path: string
  readonly ip?: string | undefined
  readonly user?: string | undefined
}

/** The answer is not the app's where its code has a limit that decides first. */
const APART_FROM_CODE = "Apart from limits in the app's own code"
const OF_THE_APP = "Limits in the app's own code are known only to the app: explain.html of its dashboard lists them."
const WITHOUT_RULES = `Rules and overrides are left out: ${variableFor('useDynamicRules')} is not true.`
const OF_A_PROCESS = 'Counters are in the memory of each server: what the client has used is known only there.'

export async function run(options: ExplainCommandOptions, context: CommandContext): Promise<CommandResult> {
  const serverSettings = commandSettings(options, context)
  const { path, ip, user } = options
  const method = options.method.toUpperCase()
  const settings = withRules(serverSettings, context)
  const isElsewhere = settings.middleware.backend === 'memory'
  const answer = await withLimiter(settings, context, ({ smartRateLimit }) =>
    smartRateLimit.explain({ method, path, ip, user }).catch((error: unknown) => {
      throw error instanceof InvalidSettingError ? new UsageError(errorMessage(error)) : error
    }),
  )
  const explanation = isElsewhere ? { ...answer, limits: answer.limits.map(withoutNumbers) } : answer
  const notes = [OF_THE_APP, ...(isElsewhere ? [OF_A_PROCESS] : [])]
  return {
    json: { ...explanation, notes: settings.useDynamicRules ? notes : [WITHOUT_RULES, ...notes] },
    lines: [
      // The answer may not be the app's where rules are off.
      ...(settings.useDynamicRules ? [] : [WITHOUT_RULES, '']),
      visible(`${method} ${path}`),
      `${APART_FROM_CODE}: ${lowerFirst(explanationSentence(explanation, ip !== undefined))}`,
      '',
      ...limitLines(explanation),
      '',
      'Mind:',
      ...notes.map((note) => `  ${note}`),
    ],
  }
}

/** Leaves out what is used in the memory of this process. */
function withoutNumbers({ policy, rate, unit, applies, why, group }: ExplainedLimit): ExplainedLimit {
  return withoutStanding(policy, rate, unit, applies, why, group)
}

function limitLines({ limits }: Explanation): string[] {
  const hasGroups = limits.some(({ group }) => group !== '')
  return tableLines(
    ['', 'used', 'left', 'rate', ...(hasGroups ? ['group'] : []), 'limit', 'why'],
    limits.map((limit) => [limit.applies ? '*' : '', ...cells(limit, hasGroups)]),
  )
}

function cells({ policy, group, rate, unit, count, remaining, why }: ExplainedLimit, hasGroups: boolean): string[] {
  const numbers = [count, remaining].map((number) => (number === null ? '' : formatCount(number)))
  return [
    ...numbers,
    rate === null ? '' : rateWords(rate, unit),
    ...(hasGroups ? [group] : []),
    visible(policy),
    visible(why),
  ]
}
