/** What runs by itself: the start of databases, lists, jobs, sums, sweeps, and the line at start. */
import type { Database } from '../../database/database.js'
import { createDatabaseStart } from '../../database/database-start.js'
import { type DeleteExpired, StateSweep, stateDeletions } from '../../limiter/stores/sql/state-cleanup.js'
import { RollupKeeper } from '../../log/rollups/keeper.js'
import { deleteOldUsage } from '../../log/usage/usage-table.js'
import { deleteOldNotices } from '../../operations/alerts/notice-table.js'
import type { ListKeeper } from '../../operations/lists/list-keeper.js'
import { deleteExpiredBans } from '../../rules/bans/ban-table.js'
import { databasesInUse } from '../settings/databases-in-use.js'
import type { Settings } from '../settings/resolve.js'
import type { Connections, Host } from './connections.js'
import type { LogParts } from './log.js'
import type { ReportParts } from './reports.js'
import type { RuleParts } from './rules.js'
import { createStartLine } from './start-line.js'

export async function openOperations(parts: Host & Connections & RuleParts & LogParts & ReportParts) {
  const { settings, components, clock, database, log, eventsLog, usage } = parts
  let lists: ListKeeper | undefined
  if (settings.enabled) {
    const isLogging = settings.logEvents !== false
    for (const used of databasesInUse(settings, database)) {
      const start =
        used === database ? createDatabaseStart(used, log, 'main') : createDatabaseStart(used, eventsLog, 'log')
      components.open('database at start', start)
    }
    if (settings.lists.sources.length > 0) {
      const { ListKeeper } = await import('../../operations/lists/list-keeper.js')
      const { blockPrivateNetworks } = settings.alerts
      const keeper = new ListKeeper({ ...settings.lists, blockPrivateNetworks, database, clock, log })
      lists = components.open('lists', keeper)
    }
    if (settings.schedule) {
      const { createScheduler } = await import('./schedule.js')
      components.open('schedule', createScheduler(settings.schedule, parts))
    }
    if (isLogging) components.open('sums of events', createRollupKeeper(parts))
    components.open('expired counters', createStateSweep(parts))
    if (usage && database.log !== database) components.open('old usage', createUsageSweep(parts))
    database.useThreads({ logsEvents: isLogging && database.log === database })
    database.log.useThreads({ logsEvents: isLogging })
  }
  // After the rules are read.
  components.open('line at start', createStartLine(parts))
  return { lists }
}

/** Creates the sweep of what expires in the tables that this server uses. */
function createStateSweep({ settings, clock, database, log, usage }: Host & Connections & LogParts): StateSweep {
  const { middleware, useDynamicRules } = settings
  const counters = middleware.backend === 'database' ? stateDeletions(database) : []
  const bans: DeleteExpired = (cutoffMs, batchSize) => deleteExpiredBans(database, cutoffMs, batchSize)
  const oldNotices: DeleteExpired = (cutoffMs, batchSize) => deleteOldNotices(database, cutoffMs, batchSize)
  const deletions = [
    ...counters,
    ...(useDynamicRules ? [bans] : []),
    ...(usage !== undefined && database.log === database ? [deleteUsage(settings, database)] : []),
    ...(databasesInUse(settings, database).includes(database) ? [oldNotices] : []),
  ]
  return new StateSweep({ deletions, clock, log })
}

/** Creates the sweep of usage in a log that has a database of its own, which may be away while the other one is not. */
export function createUsageSweep({
  settings,
  clock,
  database,
  eventsLog,
}: Pick<Host, 'settings'> & Pick<Connections, 'clock' | 'database' | 'eventsLog'>): StateSweep {
  return new StateSweep({ deletions: [deleteUsage(settings, database.log)], clock, log: eventsLog })
}

function deleteUsage({ keepUsageForMs }: Settings, database: Database): DeleteExpired {
  return (cutoffMs, batchSize) => deleteOldUsage(database, cutoffMs - keepUsageForMs, batchSize)
}

function createRollupKeeper({ clock, database: { log: database }, eventsLog }: Connections): RollupKeeper {
  const prepare = async () => {
    const { prepareRankings } = await import('../../reports/prepare-rankings.js')
    return prepareRankings(database, clock)
  }
  return new RollupKeeper({ database, clock, prepare, log: eventsLog })
}
