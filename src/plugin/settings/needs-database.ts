import type { Settings } from './resolve.js'

/** Returns whether the app stores anything in the database. */
export function needsDatabase({ middleware, logEvents, useDynamicRules, schedule, usage }: Settings): boolean {
  const keepsUsage = usage !== undefined && usage !== false && usage.length > 0
  return (
    middleware.backend === 'database' || logEvents !== false || useDynamicRules || schedule !== undefined || keepsUsage
  )
}
