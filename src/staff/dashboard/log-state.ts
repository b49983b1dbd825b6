import type { GeoFileState } from '../../clients/geo.js'
import { isoDay } from '../../ground/time/iso-time.js'
import type { EventLogStats } from '../../log/event-log-state.js'
import type { Parts } from '../../plugin/parts.js'
import type { Settings } from '../../plugin/settings/resolve.js'
import { logSince } from '../../reports/report.js'
import { formatCount, toMoment, visible } from './format.js'

/** The state of the process that shows a page. */
export interface LogState {
  readonly switches: Pick<Settings, 'enabled' | 'logEvents' | 'useDynamicRules'>
  readonly stats: EventLogStats
  /** The moment since which reports have the log, in milliseconds since the epoch; undefined where they have all of it. */
  readonly sinceMs: number | undefined
  /** The files about addresses. */
  readonly files: readonly GeoFileState[]
}

export function readLogState({
  settings,
  events,
  database,
}: Pick<Parts, 'settings' | 'events' | 'database'>): LogState {
  return {
    switches: settings,
    stats: events.stats(),
    sinceMs: logSince(database),
    files: database.sources?.geo?.files() ?? [],
  }
}

/** Returns whether the log holds refusals only: rates, and clients near a limit, are then unknown. */
export function logsOnlyBlocked({ switches: { logEvents } }: LogState): boolean {
  return logEvents === 'blocked'
}

/** Returns whether the log has the clients of refused requests only: rates of clients are then unknown. */
export function lacksAllowedClients(state: LogState): boolean {
  const { logEvents } = state.switches
  return logsOnlyBlocked(state) || (typeof logEvents === 'object' && logEvents.allowed === 'sums')
}

/**
 * Returns the notices about the log, for `notices.hbs`.
 *
 * @param hasTraffic whether the page shows any traffic; a page without traffic explains it itself
 * @param unknownPaths the number of requests that a filter by path had to leave out
 */
export function logNotices(state: LogState, hasTraffic: boolean, unknownPaths = 0) {
  const { enabled, logEvents } = state.switches
  return {
    limiter_off: !enabled,
    log_off: hasTraffic && enabled && logEvents === false,
    since: state.sinceMs === undefined ? undefined : toMoment(state.sinceMs),
    only_blocked: enabled && logEvents === 'blocked',
    only_sums: enabled && typeof logEvents === 'object' && logEvents.allowed === 'sums',
    unknown_paths: unknownPaths === 0 ? undefined : unknownPathsText(unknownPaths),
    dropped: state.stats.dropped === 0 ? undefined : droppedText(state.stats.dropped),
  }
}

const FILE_NAMES = { country: 'File of countries', asn: 'File of network operators' } as const

/** Returns the state of this process's log, and of its files about addresses, for `event-log.hbs`. */
export function logHealth({ stats: { written, dropped, buffered, spooled, lastError }, files }: LogState) {
  return {
    written: formatCount(written),
    buffered: formatCount(buffered),
    spooled: spooled === 0 ? undefined : formatCount(spooled),
    dropped: formatCount(dropped),
    has_dropped: dropped > 0,
    needs_attention:
      dropped > 0 || spooled > 0 || lastError !== null || files.some(({ problem }) => problem !== undefined),
    files: files.map(({ kind, builtAtMs, problem }) => ({
      name: FILE_NAMES[kind],
      built: isoDay(builtAtMs),
      problem: problem && visible(`The file that is there now cannot be read: ${problem}`),
    })),
    last_error: lastError === null ? undefined : visible(lastError),
  }
}

function unknownPathsText(count: number): string {
  return count === 1 ? '1 request is left out' : `${formatCount(count)} requests are left out`
}

function droppedText(dropped: number): string {
  return dropped === 1 ? '1 event of this process was lost' : `${formatCount(dropped)} events of this process were lost`
}
