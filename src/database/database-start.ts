import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Component } from '../ground/components.js'
import { errorCode, errorMessage, InvalidSettingError } from '../ground/errors.js'
import type { OutageLog } from '../ground/outage-log.js'
import { type Database, isFault } from './database.js'
import { sqlitePath } from './database-url.js'
import { exposedFiles, isOpenToAll } from './sqlite-file.js'

/** The longest wait for a database server at start, in milliseconds. */
const START_TIMEOUT_MS = 3_000

/** Names a database in the lines of a server's log, and says what goes on while it is away. */
const WORDS = {
  main: { name: 'Rate limit database', meanwhile: 'onStoreError decides' },
  log: { name: 'Rate limit events database', meanwhile: 'events wait in memory, then in eventSpool,' },
} as const

/**
 * Prepares a database when a server starts. The embedded database must open: a wrong path is an error at start. An
 * unreachable PostgreSQL server is logged; one that can never be used is an error at start too, or is logged when it is
 * first reached.
 */
export function createDatabaseStart(database: Database, log: OutageLog, of: keyof typeof WORDS = 'main'): Component {
  const { name } = WORDS[of]
  if (database.dialect.provider === 'sqlite') {
    const reportReplaced = () => {
      log.warn({}, `${name}: ${database.url} was replaced: the new file is used from now on`)
      warnOfExposure(sqlitePath(database.url), log, name)
    }
    return {
      prepare: async () => {
        await prepareFile(database, log, name)
        database.replacedListeners.add(reportReplaced)
      },
      close: () => {
        database.replacedListeners.delete(reportReplaced)
      },
    }
  }
  const report = createFaultReport(log, name)
  return {
    prepare: async () => {
      if (!(await isSettled(database, report, log, of))) database.faultListeners.add(report)
    },
    close: () => {
      database.faultListeners.delete(report)
    },
  }
}

/** @throws InvalidSettingError naming the remedy */
async function prepareFile(database: Database, log: OutageLog, name: string): Promise<void> {
  await database.ready()
  warnOfExposure(sqlitePath(database.url), log, name)
  // Opens the database, on a thread too where one is configured, before the first request would have to wait for it.
  await database.query('SELECT 1')
  await database.short.query('SELECT 1')
}

/** Creates a function that logs each kind of fault once, since every query may meet it. */
function createFaultReport(log: OutageLog, name: string): (fault: Error) => void {
  const reported = new Set<string | undefined>()
  return function reportFault(fault) {
    if (reported.has(errorCode(fault))) return
    reported.add(errorCode(fault))
    log.error({ err: fault }, `${name}: ${errorMessage(fault)}`)
  }
}

/** Returns whether a database server answers in time: that it is usable, or a fault that an operator has to fix. */
async function isSettled(
  database: Database,
  report: (fault: Error) => void,
  log: OutageLog,
  of: keyof typeof WORDS,
): Promise<boolean> {
  const { name, meanwhile } = WORDS[of]
  let isStarting = true
  const answered = database.requireMigrations().then(
    () => true,
    (error: unknown) => {
      if (isStarting && error instanceof InvalidSettingError) throw error
      if (isFault(error)) {
        report(error)
        return true
      }
      const complaint = `${name}: ${errorMessage(error)}: ${meanwhile} until it can be reached`
      log.error({ err: error }, complaint)
      return false
    },
  )
  const inTime = await Promise.race([answered, delay(START_TIMEOUT_MS, false, { ref: false })])
  isStarting = false
  return inTime
}

/** Warns when other users can access the file, which holds addresses, ids and sessions. Its mode is left unchanged. */
function warnOfExposure(path: string, log: OutageLog, name: string): void {
  const folder = dirname(path)
  if (isOpenToAll(folder)) {
    const what = `every user of this machine can replace ${path} by another file, which this server would then use`
    log.warn({}, `${name}: ${what}: run chmod o-w '${folder}'`)
  }
  const exposed = exposedFiles(path)
  if (exposed.length === 0) return
  const files = exposed.map((file) => `${file.path} (mode ${file.mode})`).join(', ')
  const paths = exposed.map((file) => `'${file.path}'`).join(' ')
  log.warn({}, `${name}: other users of this machine may read or change ${files}: run chmod 600 ${paths}`)
}
