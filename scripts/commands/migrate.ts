import { allDatabases } from '../../src/database/database.js'
import { redactUrl } from '../../src/database/database-url.js'
import { partitionEvents } from '../../src/database/partitions.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabase } from './support/open-database.js'

export interface MigrateOptions extends DatabaseOptions {
  readonly partitioned?: boolean
}

interface Migrated {
  readonly database: string
  /** The names of the migrations that were missing. */
  readonly applied: readonly string[]
  /** Whether the log has become a partitioned table now; undefined where nobody asks for it. */
  readonly partitioned?: boolean
}

export async function run(options: MigrateOptions, context: CommandContext): Promise<CommandResult> {
  return withDatabase(commandSettings(options, context), context, async ({ database }) => {
    const migrated: Migrated[] = []
    for (const each of allDatabases(database)) {
      const applied = await each.migrate()
      const partitioned = options.partitioned && each === database.log ? await partitionEvents(each) : undefined
      migrated.push({ database: redactUrl(each.url), applied, ...(partitioned !== undefined && { partitioned }) })
    }
    const [main, events] = migrated
    return {
      json: { ...main, ...(events && { events }) },
      lines: migrated.flatMap(linesFor),
    }
  })
}

function linesFor({ database, applied, partitioned }: Migrated): string[] {
  const lines = [
    ...applied.map((migration) => `Applied ${migration}`),
    ...(partitioned ? ['The event log is partitioned.'] : []),
  ]
  return lines.length === 0 ? [`Nothing to do: ${database} is up to date.`] : [...lines, `${database} is up to date.`]
}
