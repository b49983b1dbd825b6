import type { Database } from '../../database/database.js'
import type { Settings } from './resolve.js'

/** Returns whether the app stores anything but events and usage. */
export function storesEntries({ middleware, useDynamicRules, schedule, lists }: Settings): boolean {
  const keepsLists = lists.sources.some(({ kind }) => kind === 'url')
  return middleware.backend === 'database' || useDynamicRules || schedule !== undefined || keepsLists
}

/** Returns the databases in which the app stores anything: none, one, or beside it that of the log. */
export function databasesInUse(settings: Settings, database: Database): Database[] {
  const { logEvents, usage } = settings
  // Usage is kept wherever a database is open anyway.
  const keepsUsage = usage === undefined ? storesEntries(settings) : usage !== false && usage.length > 0
  const inUse = [
    ...(storesEntries(settings) ? [database] : []),
    ...(logEvents !== false || keepsUsage ? [database.log] : []),
  ]
  return [...new Set(inUse)]
}
