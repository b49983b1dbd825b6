import { listTokens } from '../../src/api/token-table.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { tokenJson, tokenLine } from './support/token-lines.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const nowMs = settings.clock.now()
    const tokens = await listTokens(database)
    return {
      json: { tokens: tokens.map((token) => tokenJson(token, nowMs)) },
      lines: [...tokens.map((token) => tokenLine(token, nowMs)), `${tokens.length} token(s).`],
    }
  })
}
