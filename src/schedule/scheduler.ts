import { messageOf } from '../errors.js'
import type { Clock } from '../time/clock.js'
import { MINUTE_MS } from '../time/clock.js'
import { type JobLeases, RENEWAL_MS } from './job-leases.js'
import type { NextRun } from './schedule-options.js'

export interface Job {
  /** The same in all processes that share it. */
  readonly name: string
  readonly nextRun: NextRun
  /**
   * Does the work, and stops soon after `signal` is aborted.
   *
   * @returns what failed though somebody was told about it already, else null
   */
  run(signal: AbortSignal): Promise<string | null>
}

export interface SchedulerOptions {
  readonly jobs: readonly Job[]
  readonly leases: JobLeases
  /** Tells what is due. When to look is real time. */
  readonly clock: Clock
  readonly log: { error(details: object, message: string): void }
}

/** A clock that is set, or a night in which it is, is noticed after so long. */
const MAX_WAIT_MS = MINUTE_MS

/**
 * Runs jobs at the moments of their schedules, each in one process of all that have it. A moment at which no process
 * was up is not made up for; one that comes while the job still runs is passed over. One at which the database was away
 * is tried again every minute, until the next one comes.
 */
export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #dueMs = new Map<Job, number>()
  readonly #running = new Map<Job, Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #failing = new Set<Job>()
  /** The moments that came while the leases could not be asked for. */
  readonly #missedMs = new Map<Job, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: SchedulerOptions) {
    this.#options = options
    for (const job of options.jobs) this.#plan(job, options.clock.now())
  }

  start(): void {
    if (this.#stopping.signal.aborted) return
    const waitMs = Math.min(...this.#dueMs.values()) - this.#options.clock.now()
    this.#timer = setTimeout(
      () => {
        void this.tick()
        this.start()
      },
      Math.max(1, Math.min(waitMs, MAX_WAIT_MS)),
    )
    this.#timer.unref()
  }

  /** Starts what is due, and resolves when it is done. Never rejects. */
  async tick(): Promise<void> {
    const nowMs = this.#options.clock.now()
    const started: Promise<void>[] = []
    for (const [job, dueMs] of this.#dueMs) {
      // Also what is not due yet: by a clock that was set back it may be due earlier.
      this.#plan(job, nowMs)
      const momentMs = dueMs <= nowMs ? dueMs : this.#missedMs.get(job)
      if (momentMs === undefined || this.#running.has(job)) continue
      this.#missedMs.delete(job)
      const run = this.#run(job, momentMs).finally(() => this.#running.delete(job))
      this.#running.set(job, run)
      started.push(run)
    }
    await Promise.all(started)
  }

  /** Resolves when no job runs any more. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer)
    this.#stopping.abort()
    await Promise.all(this.#running.values())
  }

  #plan(job: Job, nowMs: number): void {
    this.#dueMs.set(job, job.nextRun(nowMs))
  }

  async #run(job: Job, dueMs: number): Promise<void> {
    const { leases, clock } = this.#options
    try {
      const holder = await leases.take(job.name, dueMs, clock.now()).catch((error: unknown) => {
        this.#missedMs.set(job, dueMs)
        throw error
      })
      if (holder === undefined) return
      const error = await this.#runAs(holder, job)
      await leases.finish(job.name, holder, clock.now(), error)
      this.#failing.delete(job)
    } catch (error) {
      // A database that is away would be told about every time.
      if (!this.#failing.has(job)) this.#logFailure(job, error)
      this.#failing.add(job)
    }
  }

  /** Answers why it failed, else null. */
  async #runAs(holder: string, job: Job): Promise<string | null> {
    const { leases, clock } = this.#options
    const lost = new AbortController()
    const renewal = setInterval(() => {
      leases.renew(job.name, holder, clock.now()).then(
        (isHeld) => {
          if (!isHeld) lost.abort()
        },
        // The lease has more time than this.
        () => undefined,
      )
    }, RENEWAL_MS)
    renewal.unref()
    try {
      return await job.run(AbortSignal.any([this.#stopping.signal, lost.signal]))
    } catch (error) {
      this.#logFailure(job, error)
      return messageOf(error)
    } finally {
      clearInterval(renewal)
    }
  }

  #logFailure({ name }: Job, error: unknown): void {
    // A database that is being closed is no failure.
    if (this.#stopping.signal.aborted) return
    this.#options.log.error({ err: error }, `Rate limit schedule: ${name} failed: ${messageOf(error)}`)
  }
}
