import { errorMessage } from '../../ground/errors.js'
import { type Clock, MINUTE_MS } from '../../ground/time/clock.js'
import { type JobLeases, RENEWAL_MS } from './job-leases.js'
import type { NextRun } from './schedule-options.js'

export interface Job {
  /** The name, which is the same in all processes that share the job. */
  readonly name: string
  readonly nextRun: NextRun
  /**
   * Does the work, and stops soon after `signal` is aborted.
   *
   * @returns the error of a failure that was already reported, else null
   */
  run(signal: AbortSignal): Promise<string | null>
}

interface SchedulerOptions {
  readonly jobs: readonly Job[]
  readonly leases: JobLeases
  /** Decides which jobs are due. The scheduler wakes by real time. */
  readonly clock: Clock
  readonly log: { error(details: object, message: string): void }
}

/** The longest sleep, after which a clock that was set is noticed. */
const MAX_WAIT_MS = MINUTE_MS

/**
 * Runs jobs at their scheduled moments, each in one of the processes that have it. A moment at which no process ran is
 * not made up for; one that comes while the job still runs is skipped. One at which the database failed is tried again
 * every minute, until the next one comes.
 */
export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #dueMs = new Map<Job, number>()
  readonly #running = new Map<Job, Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #failing = new Set<Job>()
  /** The moments whose leases could not be requested. */
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

  /** Starts due jobs and resolves when they are done. Never rejects. */
  async tick(): Promise<void> {
    const nowMs = this.#options.clock.now()
    const started: Promise<void>[] = []
    for (const [job, dueMs] of this.#dueMs) {
      // Jobs that are not due are planned again, too: after the clock was set back they may be due earlier.
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

  /** Stops the scheduler and resolves when no job runs. */
  async close(): Promise<void> {
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
      // A failing database would be logged every time.
      if (!this.#failing.has(job)) this.#logFailure(job, error)
      this.#failing.add(job)
    }
  }

  /** Runs a job and returns why it failed, else null. */
  async #runAs(holder: string, job: Job): Promise<string | null> {
    const { leases, clock } = this.#options
    const lost = new AbortController()
    const renewal = setInterval(() => {
      leases.renew(job.name, holder, clock.now()).then(
        (isHeld) => {
          if (!isHeld) lost.abort()
        },
        // The lease outlasts a failed renewal.
        () => undefined,
      )
    }, RENEWAL_MS)
    renewal.unref()
    try {
      return await job.run(AbortSignal.any([this.#stopping.signal, lost.signal]))
    } catch (error) {
      this.#logFailure(job, error)
      return errorMessage(error)
    } finally {
      clearInterval(renewal)
    }
  }

  #logFailure({ name }: Job, error: unknown): void {
    // An error while the database is being closed is no failure.
    if (this.#stopping.signal.aborted) return
    this.#options.log.error({ err: error }, `Rate limit schedule: ${name} failed: ${errorMessage(error)}`)
  }
}
