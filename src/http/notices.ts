/** Tells the app and operators that clients have used shares of their windows. */
import type { FastifyBaseLogger } from 'fastify'
import { errorMessage } from '../ground/errors.js'
import { detached, MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { SECOND_MS } from '../ground/time/clock.js'
import type { Check, Decision } from '../limiter/algorithm.js'
import { type Notice, type NoticedLimit, type ReachedShare, reachedShares, toNotice } from '../limiter/notice.js'
import { type AppliedLimit, type CheckedRequest, NOT_ASKED } from './checked-request.js'
import { tolerate } from './host-function.js'

/** Receives a client that has used a share of a window, in percent: once per share and window, over all processes. */
export type NoticeFunction = (client: string, limit: NoticedLimit, share: number) => unknown

/** Decides which process tells of a notice. */
export interface NoticeClaims {
  /**
   * Returns the notices that no process has told of, which this one then does.
   *
   * @throws the error of a store that cannot be reached: they are claimed again with later requests
   */
  claim(notices: readonly Notice[]): Promise<readonly Notice[]>
}

export interface NoticesOptions {
  readonly claims: NoticeClaims
  readonly onNotice: NoticeFunction | undefined
  /** Sends messages about claimed notices, in the background. It never throws. */
  readonly send: (notices: readonly Notice[]) => void
  readonly log: FastifyBaseLogger
}

/** The most shares of counters that a process remembers to be told of: of others it asks again. */
const MAX_KNOWN = 20_000
/** The most notices that wait while those before are claimed; further ones are noted again by later requests. */
const MAX_WAITING = 10_000
const BATCH_SIZE = 100
/** The time for which nothing is noted after a failure. */
const RETRY_MS = SECOND_MS

/**
 * Notes what checks and charges have brought counters to. Requests wait for nothing: one process of all claims a notice
 * in the background, calls `onNotice`, and has the message sent.
 */
export class Notices {
  readonly #options: NoticesOptions
  readonly #notify: (notice: Notice) => unknown
  /** The starts of the windows that are told of, or are being told of, by the counter, the window and the share. */
  readonly #known = new Map<string, number>()
  #waiting: Notice[] = []
  #claiming: Promise<void> | undefined
  #failedMs: number | undefined
  #isClosed = false

  constructor(options: NoticesOptions) {
    const { onNotice, log } = options
    this.#options = options
    this.#notify =
      onNotice === undefined
        ? () => undefined
        : tolerate(({ client, limit, share }: Notice) => onNotice(client, limit, share), 'onNotice', log)
  }

  /** Notes what the checks of a request have brought its counters to. Never throws. */
  noteChecked(checked: CheckedRequest): void {
    const { applied = [checked], nowMs } = checked
    for (const { limit, client, check, decision } of applied) {
      // What counts responses takes nothing before there is one.
      if (limit.noticeAt !== null && limit.counts === null && decision !== NOT_ASKED) {
        this.note({ limit, client, check }, decision, nowMs)
      }
    }
  }

  /** Notes what a check or a charge has brought a counter to. Never throws. */
  note(
    { limit, client, check }: Pick<AppliedLimit, 'limit' | 'client' | 'check'>,
    decision: Decision | undefined,
    nowMs: number,
  ): void {
    const { noticeAt, policyName, unit } = limit
    if (noticeAt === null || decision === undefined || decision.unavailable) return
    for (const reached of reachedShares(check, decision, noticeAt, nowMs)) {
      if (!this.#isNew(reached, check, nowMs)) continue
      const named = {
        client: detached(storable(client.logged.text, MAX_KEY_LENGTH)),
        policyName: storable(policyName, MAX_KEY_LENGTH),
        unit,
      }
      this.#waiting.push(toNotice(reached, check, named, nowMs))
      this.#claiming ??= this.#claimWaiting()
    }
  }

  /** Resolves when all that was noted is claimed. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#claiming
  }

  /** Returns whether this process has not noted a share in this window; then it has from now on. */
  #isNew({ window, share, startMs }: ReachedShare, { key }: Check, nowMs: number): boolean {
    const name = nameOf(window.periodMs, share, key)
    if (this.#known.get(name) === startMs) return false
    const { length } = this.#waiting
    if (this.#isClosed || length >= MAX_WAITING || isRecent(this.#failedMs, nowMs)) return false
    this.#known.delete(name)
    this.#known.set(name, startMs)
    if (this.#known.size > MAX_KNOWN) {
      const [oldest] = this.#known.keys()
      if (oldest !== undefined) this.#known.delete(oldest)
    }
    return true
  }

  /** Claims what waits, in batches, one after the other. Never rejects. */
  async #claimWaiting(): Promise<void> {
    // The request that was noted goes on first, and others of the same moment are claimed together.
    await Promise.resolve()
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH_SIZE)
      try {
        this.#tell(await this.#options.claims.claim(batch))
        this.#failedMs = undefined
      } catch (error) {
        this.#failed(error, batch)
      }
    }
    this.#claiming = undefined
  }

  #tell(claimed: readonly Notice[]): void {
    if (claimed.length === 0) return
    for (const notice of claimed) this.#notify(notice)
    this.#options.send(claimed)
  }

  /** Forgets notices that could not be claimed, so that later requests note them again. */
  #failed(error: unknown, batch: readonly Notice[]): void {
    const unclaimed = [...batch, ...this.#waiting.splice(0)]
    for (const { window, share, counter } of unclaimed) this.#known.delete(nameOf(window.periodMs, share, counter))
    if (this.#failedMs === undefined) {
      this.#options.log.error(
        { err: error },
        `Rate limit notices cannot be claimed: ${errorMessage(error)}. They wait until they can, or their windows are over`,
      )
    }
    this.#failedMs = Math.max(...unclaimed.map(({ atMs }) => atMs))
  }
}

function nameOf(periodMs: number, share: number, counter: string): string {
  return `${periodMs} ${share} ${counter}`
}

/** Returns whether something happened so lately that it is not tried again. The clock may have been set back. */
function isRecent(atMs: number | undefined, nowMs: number): boolean {
  return atMs !== undefined && nowMs >= atMs && nowMs < atMs + RETRY_MS
}
