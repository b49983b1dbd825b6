import { RuleDocumentError } from '../../src/errors.js'
import { asActor } from '../../src/rules/actor.js'
import { importRules } from '../../src/rules/exchange.js'
import { type CommandResult, defineCommand } from './support/command.js'
import { commandActor } from './support/command-actor.js'
import { importLines } from './support/import-lines.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { readJson } from './support/read-json.js'

export const rulesImport = defineCommand({
  name: 'rules import',
  summary: 'Make the rules and overrides those of a JSON file',
  description: [
    'Creates, updates and deletes rules and overrides until they are those of the file, which rules export made; all of them or, when anything is wrong, none. Servers follow within two seconds. Look first with --dry-run: rules that the file does not name are deleted. With --keep they stay.',
    'A file without "rules" leaves the rules alone, one without "overrides" the overrides. Overrides of the file that have expired are left out. Another name is another rule: a rename is a deletion and a creation.',
    'Every wrong place of the file is told on stderr; the exit status is then 1, and nothing was written.',
  ],
  options: {
    file: { type: 'operand', help: 'the file; - reads it from standard input' },
    'dry-run': { type: 'flag', help: 'say what would change, write nothing' },
    keep: { type: 'flag', help: 'delete nothing' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit rules import rules.json --dry-run',

  async run({ file, 'dry-run': dryRun, keep, schema }) {
    const settings = commandSettings(schema)
    const document = await readJson(file)
    return withExistingDatabase(settings, async ({ database }): Promise<CommandResult> => {
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
  },
})

function refusal({ errors }: RuleDocumentError): CommandResult {
  const complaints = Object.entries(errors).map(([place, message]) => `${place}: ${message}`)
  return {
    json: { applied: false, errors },
    lines: [],
    failures: [...complaints, `nothing was imported: ${complaints.length} place(s) of the file are wrong`],
  }
}
