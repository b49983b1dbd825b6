import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { type OpenDatabase, openDatabase } from '../../../src/client.js'
import type { Database } from '../../../src/db/database.js'
import { sqlitePath } from '../../../src/db/sqlite.js'
import { messageOf } from '../../../src/errors.js'
import { resolveSettings, type Settings } from '../../../src/settings/resolve.js'
import { type CommandContext, UsageError } from './command.js'
import { withEnvironmentFile } from './environment.js'
import { warnLine } from './terminal.js'

/** What every command takes that works on the database. */
export interface DatabaseOptions {
  readonly schema?: string | undefined
}

/**
 * The settings of a command: those of the server, as far as they come from the environment.
 *
 * @throws InvalidSettingError for a wrong variable, UsageError for a wrong option
 */
export function commandSettings({ schema }: DatabaseOptions, { env }: CommandContext): Settings {
  const environment = withEnvironmentFile(env)
  const settings = resolveSettings({}, environment)
  if (schema === undefined) return settings
  try {
    return resolveSettings({ schema }, environment)
  } catch (error) {
    throw new UsageError(messageOf(error))
  }
}

/** Gives `work` the database that the settings name, and closes it afterwards. */
export async function withDatabase<T>(settings: Settings, work: (opened: OpenDatabase) => Promise<T>): Promise<T> {
  const opened = openDatabase(settings.database, settings.schema, settings.clock)
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/**
 * The same for work on what should be there already. A scheduled command that runs in the wrong folder would find
 * nothing wrong, for ever: so a new file is mentioned.
 */
export function withExistingDatabase<T>(
  settings: Settings,
  { stderr }: CommandContext,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  return withDatabase(settings, (opened) => {
    const missing = missingFile(opened.database)
    if (missing !== undefined) {
      warnLine(`ratelimit: there is no database at ${missing} yet, creating an empty one`, stderr)
    }
    return work(opened)
  })
}

/** Where a SQLite file would be that is not there: opening it would create it. */
export function missingFile({ url }: Database): string | undefined {
  if (!url.startsWith('file:')) return undefined
  const path = resolve(sqlitePath(url))
  return existsSync(path) ? undefined : path
}
