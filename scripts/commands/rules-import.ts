import { RuleDocumentError } from '../../src/errors.js'
import { importRules } from '../../src/exchange/exchange.js'
import { asActor } from '../../src/history/actor.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandActor } from './support/command-actor.js'
import { importLines } from './support/import-lines.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { readJson } from './support/read-json.js'

interface RulesImportOptions extends DatabaseOptions {
  readonly dryRun?: true | undefined
  readonly keep?: true | undefined
}

export async function run(file: string, options: RulesImportOptions, context: CommandContext): Promise<CommandResult> {
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
  const complaints = Object.entries(errors).map(([place, message]) => `${place}: ${message}`)
  return {
    json: { applied: false, errors },
    lines: [],
    failures: [...complaints, `nothing was imported: ${complaints.length} place(s) of the file are wrong`],
  }
}
