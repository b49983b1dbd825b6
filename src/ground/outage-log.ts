/** The log of the parts that depend on the database or on Redis: they meet an outage together. */
import { errorCode, errorLine, MissingTableError } from './errors.js'
import { type Clock, MINUTE_MS } from './time/clock.js'

export interface OutageLog {
  error(details: object, message: string): void
  /** A warning of a failure has no consequence of its own: it is left out where the cause is known. */
  warn(details: object, message: string): void
  /** Parts inform of what succeeded, which ends an outage. */
  info(message: string): void
  info(details: object, message: string): void
  /** Returns whether the cause of an error was logged. */
  knows(error: unknown): boolean
}

type HostLog = Pick<OutageLog, 'error' | 'warn'> & { info(details: object, message: string): void }

/** A cause that was not met for so long is logged with its stack again. */
const FORGOTTEN_MS = 10 * MINUTE_MS
/** The most causes of an outage: more different errors are none. */
const MAX_CAUSES = 100
/** The codes of a lost connection, those of PostgreSQL among them. Where drivers give none, they throw a plain `Error`. */
const CONNECTION_CODES =
  /^(?:ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|08\w{3}|57P0\d|53300)$/

interface Cause {
  metAtMs: number
  readonly said: Set<string>
}

/**
 * Creates a log in which a cause has one stack, however many parts meet it: the first line about it has the error, later
 * ones its message as `cause`, and say each thing once. Lines without an error stay as they are.
 */
export function createOutageLog(log: HostLog, clock: Clock): OutageLog {
  const causes = new Map<string, Cause>()

  /** Returns the details of a line; undefined where it says nothing new. */
  function toDetails(details: { readonly err?: unknown }, message: string, isHarmless: boolean): object | undefined {
    const { err, ...others } = details
    if (!(err instanceof Error)) return details
    const error = rootOf(err)
    const name = causeName(error)
    const nowMs = timeNow()
    const said = `${message} ${JSON.stringify(others)}`
    const cause = causes.get(name)
    // The clock may have been set back.
    if (cause === undefined || Math.abs(nowMs - cause.metAtMs) > FORGOTTEN_MS) {
      if (causes.size >= MAX_CAUSES) causes.clear()
      causes.set(name, { metAtMs: nowMs, said: new Set([said]) })
      return details
    }
    cause.metAtMs = nowMs
    if (isHarmless || cause.said.has(said)) return undefined
    cause.said.add(said)
    return { ...others, cause: errorLine(error) }
  }

  /** Failures are logged also where the host's clock fails. */
  function timeNow(): number {
    try {
      return clock.now()
    } catch {
      return 0
    }
  }

  function informed(message: string): void
  function informed(details: object, message: string): void
  function informed(details: object | string, message?: string): void {
    causes.clear()
    if (typeof details === 'string') log.info({}, details)
    else log.info(details, message ?? '')
  }

  return {
    error: (details, message) => {
      const logged = toDetails(details, message, false)
      if (logged !== undefined) log.error(logged, message)
    },
    warn: (details, message) => {
      const logged = toDetails(details, message, true)
      if (logged !== undefined) log.warn(logged, message)
    },
    info: informed,
    knows: (error) => error instanceof Error && causes.has(causeName(rootOf(error))),
  }
}

/** Returns the log of parts that need what each of two logs is about: they warn of causes that neither knows. */
export function createSharedOutageLog(log: OutageLog, other: OutageLog): OutageLog {
  if (other === log) return log
  return {
    ...log,
    warn: (details, message) => {
      if (!other.knows(Reflect.get(details, 'err'))) log.warn(details, message)
    },
  }
}

/** Returns what an error stems from: the missing table, or the innermost error. */
function rootOf(error: Error): Error {
  return error instanceof MissingTableError || !(error.cause instanceof Error) ? error : rootOf(error.cause)
}

/** Returns the same text for errors of one cause. */
function causeName(error: Error): string {
  const code = errorCode(error)
  if (error instanceof MissingTableError) return 'tables'
  const isConnection = code === undefined ? error.constructor === Error : CONNECTION_CODES.test(code)
  return isConnection ? 'connection' : `${code} ${error.message}`
}
