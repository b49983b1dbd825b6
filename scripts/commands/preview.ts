import { createRulePreview, findLogGaps } from '../../src/app/wiring.js'
import type { RuleCandidate } from '../../src/rules/rule.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { previewLines } from './support/preview-lines.js'
import { createProgress } from './support/progress.js'
import { inputName, readJson } from './support/read-json.js'

interface PreviewOptions extends DatabaseOptions {
  readonly file?: string | undefined
  readonly name?: string | undefined
  readonly rate?: string | undefined
  readonly hours: number
}

/** The defaults of Fastify's router. */
const DEFAULT_ROUTER = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
}

export async function run(options: PreviewOptions, context: CommandContext): Promise<CommandResult> {
  const { file, name, rate, hours } = options
  if (file === undefined && name === undefined) throw new UsageError('no rule given: give --file or --name')
  const settings = commandSettings(options, context)
  const fromFile = file === undefined ? undefined : await readRule(file, context)
  return withExistingDatabase(settings, context, async (opened) => {
    async function stored(): Promise<RuleCandidate> {
      const row = await opened.client.rateLimitRule.findUnique({ where: { name: name ?? '' } })
      if (row === null) throw new Error(`there is no rule ${JSON.stringify(name)}: give the name of one, or --file`)
      return row
    }
    const candidate = fromFile ?? (await stored())
    const replay = createRulePreview(settings, opened, DEFAULT_ROUTER, {
      gaps: () => findLogGaps(settings),
      notes: () => [],
    })
    const progress = createProgress(context.stderr)
    const onProgress = (events: number) => progress.show(`Read ${events} event(s) so far`)
    const tried = rate === undefined ? candidate : { ...candidate, rate }
    const result = await replay(tried, { hours, onProgress }).finally(progress.end)
    return { json: result, lines: previewLines(result) }
  })
}

async function readRule(file: string, context: CommandContext): Promise<RuleCandidate> {
  const rule = await readJson(file, context)
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) {
    throw new Error(`${inputName(file)} is no rule: give an object such as { "name": "api", … }`)
  }
  // The preview checks every field.
  return rule as RuleCandidate
}
