import { redactUrl } from '../../src/database/database-url.js'
import { partitionEvents } from '../../src/database/partitions.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabase } from './support/open-database.js'

export interface MigrateOptions extends DatabaseOptions {
  readonly partitioned?: boolean
}

export async function run(options: MigrateOptions, context: CommandContext): Promise<CommandResult> {
  return withDatabase(commandSettings(options, context), async ({ database }) => {
    const applied = await database.migrate()
    const name = redactUrl(database.url)
    const partitioned = options.partitioned === true && (await partitionEvents(database))
    const lines = [
      ...applied.map((migration) => `Applied ${migration}`),
      ...(partitioned ? ['The event log is partitioned.'] : []),
    ]
    return {
      json: { database: name, applied, ...(options.partitioned && { partitioned }) },
      lines: lines.length === 0 ? [`Nothing to do: ${name} is up to date.`] : [...lines, `${name} is up to date.`],
    }
  })
}
