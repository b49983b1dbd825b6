import { createRulePreview, logGapsOf } from '../../src/parts.js'
import type { RuleCandidate } from '../../src/rules/preview-candidate.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { previewLines } from './support/preview-lines.js'
import { createProgress } from './support/progress.js'
import { readRuleFile } from './support/read-rule-file.js'
import { UsageError } from './support/usage-error.js'

/** How Fastify's router reads paths unless it is told otherwise. */
const DEFAULT_ROUTER = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
}

export const preview = defineCommand({
  name: 'preview',
  summary: 'Tell what a rule would have refused',
  description: [
    'Replays the event log of the last --hours through a rule that is not in force, as if it were active among the rules that are. Nothing is written.',
    'The rule is a JSON file with the fields of a rule, { "name": "api", "pathPattern": "^/api/", "rate": "20/m" }, or one of the table, with another rate if one is given. It takes the place of the stored rule of its name.',
    'Paths are read as by a router with the options that are its defaults. In an app, app.smartRateLimit.rules.preview() goes by the options of that app.',
  ],
  options: {
    file: { type: 'text', help: 'file with the rule as JSON; - for standard input' },
    name: { type: 'text', help: 'name of a rule in the table, instead of a file' },
    rate: { type: 'text', help: 'rate to try in place of the one that the rule has' },
    hours: { type: 'integer', of: 'hours', min: 1, max: 720, default: 24, help: 'how far back to look' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit preview --name api --rate 10/m --hours 48',

  async run({ file, name, rate, hours, schema }) {
    if ((file === undefined) === (name === undefined)) throw new UsageError('give either --file or --name')
    const settings = commandSettings(schema)
    const fromFile = file === undefined ? undefined : await readRuleFile(file)
    return withExistingDatabase(settings, async (opened): Promise<CommandResult> => {
      async function stored(): Promise<RuleCandidate> {
        const row = await opened.client.rateLimitRule.findUnique({ where: { name: name ?? '' } })
        if (row === null) throw new Error(`there is no rule ${JSON.stringify(name)}: give the name of one, or --file`)
        return row
      }
      const candidate = fromFile ?? (await stored())
      const replay = createRulePreview(settings, opened, DEFAULT_ROUTER, {
        gaps: () => logGapsOf(settings),
        notes: () => [],
      })
      const progress = createProgress()
      const onProgress = (events: number) => progress.show(`Read ${events} event(s) so far`)
      const tried = rate === undefined ? candidate : { ...candidate, rate }
      const result = await replay(tried, { hours, onProgress }).finally(progress.end)
      return { json: result, lines: previewLines(result) }
    })
  },
})
