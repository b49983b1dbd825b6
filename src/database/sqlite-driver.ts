/** Chooses the driver of SQLite, for the statements of this package and for those of Prisma. */
import type BetterSqlite3 from 'better-sqlite3'
import { errorCode, InvalidSettingError } from '../ground/errors.js'
import { loadModule } from '../ground/package-root.js'

export type SqliteDatabase = BetterSqlite3.Database
export type SqliteStatement = BetterSqlite3.Statement
type Driver = typeof BetterSqlite3

/** The driver for versions of Node without Node-API 10, on which loading the other one ends the process. */
const OLD_DRIVER = 'better-sqlite3-node20'
/** The driver as npm installs it. */
const OLD_DRIVER_PACKAGE = `${OLD_DRIVER}@npm:better-sqlite3@12`

let driver: Driver | undefined
let hasWarned = false

/** Warns once per process that its version of Node is past its end of life. */
export function warnAboutNode20(): void {
  if (nodeVersion().major >= 22 || hasWarned) return
  hasWarned = true
  process.emitWarning('Node.js 20 has had no security fixes since April 2026: use Node.js 22 or later', {
    code: 'FST_RATE_LIMIT_NODE_20',
  })
}

function nodeVersion(): { major: number; minor: number } {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return { major, minor }
}

/** Reads Node's version, since Deno and Bun, which have Node-API 10 too, report other versions of it. */
function hasNodeApi10(): boolean {
  const { major, minor } = nodeVersion()
  return major > 23 || (major === 23 && minor >= 6) || (major === 22 && minor >= 14)
}

/**
 * Opens a file. The first call loads the driver, so that an app without SQLite loads none.
 *
 * @throws InvalidSettingError on Node 20, and 22 before 22.14, when the driver for them is not installed, or was not built
 */
export function openSqliteFile(path: string, options?: BetterSqlite3.Options): SqliteDatabase {
  driver ??= loadDriver()
  return new driver(path, options)
}

function loadDriver(): Driver {
  if (hasNodeApi10()) return loadModule('better-sqlite3') as Driver
  try {
    const loaded = loadModule(OLD_DRIVER) as Driver
    // It looks for its binary only now.
    new loaded(':memory:').close()
    return loaded
  } catch (error) {
    const missing = isNotInstalled(error)
      ? `an older driver: run "npm install ${OLD_DRIVER_PACKAGE}"`
      : `a binary of ${OLD_DRIVER}, which could not be loaded: install g++, make and python3, and the packages again with its install script`
    throw new InvalidSettingError(
      `SQLite on Node.js ${process.versions.node} needs ${missing}, or use Node.js 22.14 or later`,
      { cause: error },
    )
  }
}

function isNotInstalled(error: unknown): boolean {
  return errorCode(error) === 'MODULE_NOT_FOUND'
}

/** Returns the package that SQLite needs on this version of Node and that is not installed, as npm installs it. */
export function missingDriver(): string | undefined {
  try {
    driver ??= loadDriver()
    return undefined
  } catch (error) {
    if (error instanceof InvalidSettingError && isNotInstalled(error.cause)) return OLD_DRIVER_PACKAGE
    throw error
  }
}

/** Returns SQLite's name of an error, such as `SQLITE_BUSY`; undefined for any other error. */
export function sqliteErrorCode(error: unknown): string | undefined {
  return driver !== undefined && error instanceof driver.SqliteError ? error.code : undefined
}

/** Recreates an error of SQLite that lost its class on the way from another thread. */
export function createSqliteError(message: string, code: string): Error {
  driver ??= loadDriver()
  return new driver.SqliteError(message, code)
}
