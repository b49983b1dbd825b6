import { revokeToken } from '../../src/api/token-table.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'

export async function run(name: string, options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  return withExistingDatabase(commandSettings(options, context), context, async ({ database }) => {
    const isRevoked = await revokeToken(database, name)
    const quoted = JSON.stringify(name)
    return isRevoked
      ? { json: { revoked: 1 }, lines: [`Revoked: ${quoted}.`] }
      : { json: { revoked: 0 }, lines: [], failures: [`there is no token ${quoted}: see token list`] }
  })
}
