import { redactUrl } from '../../src/database/database-url.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabase } from './support/open-database.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  return withDatabase(commandSettings(options, context), async ({ database }) => {
    const applied = await database.migrate()
    const name = redactUrl(database.url)
    return {
      json: { database: name, applied },
      lines:
        applied.length === 0
          ? [`Nothing to do: ${name} is up to date.`]
          : [...applied.map((migration) => `Applied ${migration}`), `${name} is up to date.`],
    }
  })
}
