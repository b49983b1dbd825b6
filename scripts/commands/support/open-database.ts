import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { allDatabases, type Database } from '../../../src/database/database.js'
import { DEFAULT_DATABASE_URL, sqlitePath } from '../../../src/database/database-url.js'
import { errorCode, errorMessage } from '../../../src/ground/errors.js'
import { type OpenDatabase, openDatabase } from '../../../src/plugin/client/client.js'
import { variableFor } from '../../../src/plugin/settings/environment.js'
import { resolveSettings, type Settings } from '../../../src/plugin/settings/resolve.js'
import { type CommandContext, UsageError } from './command.js'
import { warnLine } from './terminal.js'

/** The options of every command that works on the database. */
export interface DatabaseOptions {
  readonly schema?: string | undefined
}

/**
 * Returns the settings of a command: those of the server that come from the environment.
 *
 * @throws InvalidSettingError for an invalid variable, UsageError for an invalid option
 */
export function commandSettings({ schema }: DatabaseOptions, { env }: CommandContext): Settings {
  const environment = withEnvironmentFile(env)
  const settings = resolveSettings({}, environment)
  if (schema === undefined) return settings
  try {
    return resolveSettings({ schema }, environment)
  } catch (error) {
    throw new UsageError(errorMessage(error))
  }
}

/** Passes the database that the settings name to `work`, and closes it afterwards. */
export async function withDatabase<T>(
  settings: Settings,
  context: CommandContext,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  sayWhichDatabase(settings, context)
  const opened = openDatabase(settings)
  try {
    return await work(opened)
  } finally {
    await opened.close()
  }
}

/**
 * Does the same for a database that should exist. It reports a new file, since a scheduled command in the wrong folder
 * would otherwise go unnoticed.
 */
export function withExistingDatabase<T>(
  settings: Settings,
  context: CommandContext,
  work: (opened: OpenDatabase) => Promise<T>,
): Promise<T> {
  return withDatabase(settings, context, (opened) => {
    for (const each of allDatabases(opened.database)) warnOfNewFile(each, context.stderr)
    return work(opened)
  })
}

/**
 * Does the same for a command that only reads the log, or rules and the like: a new file would have nothing to show, and
 * look like a quiet server.
 *
 * @throws Error for a SQLite file that does not exist
 */
export function withDatabaseToRead<T>(
  settings: Settings,
  context: CommandContext,
  work: (opened: OpenDatabase) => Promise<T>,
  read: 'log' | 'rules' = 'log',
): Promise<T> {
  return withDatabase(settings, context, async (opened) => {
    requireFile(read === 'log' ? opened.database.log : opened.database)
    return work(opened)
  })
}

/** Names the database where nobody did: in another folder than the app's it is another one. */
export function sayWhichDatabase({ database }: Settings, { stderr }: CommandContext): void {
  if (database !== undefined) return
  const why = `${variableFor('database')} is not set in the environment or in .env`
  warnLine(`ratelimit: ${why}: the database is ${resolve(sqlitePath(DEFAULT_DATABASE_URL))}`, stderr)
}

/** @throws Error for a SQLite file that does not exist */
export function requireFile(database: Pick<Database, 'url'>): void {
  const missing = missingFile(database)
  if (missing !== undefined) throw new Error(`There is no database at ${missing}`)
}

export function warnOfNewFile(database: Pick<Database, 'url'>, stderr: CommandContext['stderr']): void {
  const missing = missingFile(database)
  if (missing !== undefined) {
    warnLine(`ratelimit: there is no database at ${missing} yet, creating an empty one`, stderr)
  }
}

/** Returns the path of a SQLite file that does not exist yet, and that opening would create. */
export function missingFile({ url }: Pick<Database, 'url'>): string | undefined {
  if (!url.startsWith('file:')) return undefined
  const path = resolve(sqlitePath(url))
  return existsSync(path) ? undefined : path
}

/**
 * Adds the variables of `.env` in the working directory, if it exists. The environment's own variables win.
 *
 * @throws Error for a file that cannot be read: without its settings a command would silently do nothing
 */
export function withEnvironmentFile(environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  // Editors of some systems begin a file with a byte order mark.
  return { ...parseEnv((readEnvironmentFile() ?? '').replace(/^\uFEFF/, '')), ...environment }
}

/** Reads the file without Node's loader, which reports an unreadable file as missing. */
function readEnvironmentFile(): string | undefined {
  try {
    return readFileSync('.env', 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw new Error(`.env in the working directory cannot be read: ${errorMessage(error)}`)
  }
}
