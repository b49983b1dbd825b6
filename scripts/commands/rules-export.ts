import { exportRules } from '../../src/exchange/exchange.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const document = await exportRules(database, settings.clock)
    return { json: document, lines: JSON.stringify(document, null, 2).split('\n') }
  })
}
