/** The logs of events and of usage, the reports of them, and what keeps their sums. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '../../database/database.js'
import type { Component } from '../../ground/components.js'
import { REQUESTS } from '../../ground/unit.js'
import { createBatchTable, type RowKind } from '../../log/batch-table.js'
import { EVENT_ROWS } from '../../log/event.js'
import { EventLog } from '../../log/event-log.js'
import { EventLogState } from '../../log/event-log-state.js'
import type { RecordLogOptions } from '../../log/record-log.js'
import { openSpoolFolder } from '../../log/spool-folder.js'
import { SpooledTable } from '../../log/spooled-table.js'
import { UsageLog } from '../../log/usage/usage-log.js'
import { USAGE_ROWS, usageSpool } from '../../log/usage/usage-table.js'
import { databasesInUse } from '../settings/databases-in-use.js'
import type { Connections, Host } from './connections.js'
import type { CountingParts } from './counting.js'
import { openReadings } from './metrics.js'
import type { ReportParts } from './reports.js'
import type { RuleParts } from './rules.js'

/**
 * The longest time for which events gather, in milliseconds: more rows share the cost of a statement, and the pages that
 * SQLite copies for each transaction. A process that is killed loses what has gathered.
 */
const MAX_GATHER_MS = 500
/** The time for which events gather that become one row where they are alike. */
const MAX_COLLAPSING_MS = 1_000
/** The longest wait of a report for the latest events, in milliseconds: a locked file may take none for longer. */
const FLUSH_TIMEOUT_MS = 2_000

export interface LogParts extends ReturnType<typeof openLog> {}

export function openLog(parts: Host & Connections & RuleParts & CountingParts & ReportParts) {
  const { components, database, metrics } = parts
  const events = createEventLog(parts)
  const usage = createUsageLog(parts)
  // Opened before what writes the last events, so that these are counted.
  if (metrics) components.open('metrics', openReadings(metrics, { ...parts, events, usage }))
  components.open('events', createFlush(database, events))
  if (usage) components.open('usage', createFlush(database, usage))
  return { events, usage }
}

function createEventLog(parts: Host & Connections): EventLog {
  const { enabled, logEvents, eventSpool } = parts.settings
  const folder = enabled && logEvents !== false ? eventSpool : undefined
  const commits = createGroupCommits(parts, EVENT_ROWS, folder)
  if (typeof logEvents !== 'object') return new EventLog(commits)
  return new EventLog({ ...commits, maxGatherMs: MAX_COLLAPSING_MS, gathersLong: true }, logEvents)
}

/** Returns the log of usage; undefined where the app keeps none. */
function createUsageLog(parts: Host & Connections): UsageLog | undefined {
  const { settings, database } = parts
  const { enabled, usage, eventSpool } = settings
  const isOpen = databasesInUse(settings, database).includes(database.log)
  if (!enabled || usage === false || usage?.length === 0 || !isOpen) return undefined
  const isKept = usage === undefined ? (unit: string) => unit !== REQUESTS : (unit: string) => usage.includes(unit)
  return new UsageLog(createGroupCommits(parts, USAGE_ROWS, usageSpool(eventSpool)), isKept)
}

/** @param spool the folder of the spool; undefined where there is none */
function createGroupCommits(
  { clock, database: { log: database }, eventsLog, settings: { eventBuffer } }: Host & Connections,
  rows: RowKind,
  spool: string | undefined,
): RecordLogOptions {
  const folder = spool === undefined ? undefined : openSpoolFolder(spool)
  const now = () => clock.now()
  const state = new EventLogState(now, eventsLog, rows)
  const batchSize = database.dialect.rowsPerInsert
  const table = createBatchTable(database, clock, folder !== undefined, rows)
  return {
    table: folder === undefined ? state.counting(table) : new SpooledTable({ table, folder, batchSize, rows, state }),
    writer: folder?.writer ?? randomUUID(),
    batchSize,
    maxGatherMs: MAX_GATHER_MS,
    bufferSize: eventBuffer,
    now,
    state,
  }
}

/** Writes buffered rows before every report and when the app closes. */
function createFlush({ log: { beforeReport } }: Database, log: Pick<EventLog, 'flush' | 'close'>): Component {
  // A long spool takes minutes to be written, for which no report waits.
  const flush = () => Promise.race([log.flush(), delay(FLUSH_TIMEOUT_MS, undefined, { ref: false })])
  beforeReport.add(flush)
  return {
    close: () => {
      beforeReport.delete(flush)
      return log.close()
    },
  }
}
