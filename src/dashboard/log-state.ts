import type { EventLogStats } from '../events/event-log.js'
import type { Internals, Switches } from '../internals.js'
import { formatCount, visible } from './format.js'

/** What a page has to know of the process that shows it. */
export interface LogState {
  readonly switches: Switches
  readonly stats: EventLogStats
}

export function logStateOf({ switches, eventStats }: Internals): LogState {
  return { switches, stats: eventStats() }
}

/** Whether the log holds refusals alone: then rates, and who is near a limit, cannot be told. */
export function logsOnlyBlocked({ switches: { logEvents } }: LogState): boolean {
  return logEvents === 'blocked'
}

/**
 * What `notices.hbs` says about the log before anything else.
 *
 * @param hasTraffic whether the page shows any; where it does not, it says why itself
 * @param unknownPaths how many requests a filter by path had to leave out
 */
export function logNotices(state: LogState, hasTraffic: boolean, unknownPaths = 0) {
  const { enabled, logEvents } = state.switches
  return {
    limiter_off: !enabled,
    log_off: hasTraffic && enabled && logEvents === false,
    only_blocked: enabled && logEvents === 'blocked',
    unknown_paths: unknownPaths === 0 ? undefined : unknownPathsText(unknownPaths),
    dropped: state.stats.dropped === 0 ? undefined : droppedText(state.stats.dropped),
  }
}

/** What `event-log.hbs` shows: how the log of this process does. */
export function logHealth({ stats: { written, dropped, buffered, lastError } }: LogState) {
  return {
    written: formatCount(written),
    buffered: formatCount(buffered),
    dropped: formatCount(dropped),
    has_dropped: dropped > 0,
    last_error: lastError === null ? undefined : visible(lastError),
  }
}

function unknownPathsText(count: number): string {
  return count === 1 ? '1 request is left out' : `${formatCount(count)} requests are left out`
}

function droppedText(dropped: number): string {
  return dropped === 1 ? '1 event of this process was lost' : `${formatCount(dropped)} events of this process were lost`
}
