import { randomUUID } from 'node:crypto'
import type { Database } from '../db/database.js'
import type { SqlWork } from '../db/dialect.js'
import { type Clock, DAY_MS } from '../time/clock.js'
import { ALERT_TABLE, claimKeys, forgetExpired, readAlerts, releaseClaim, settleClaim } from './alert-table.js'
import { CLAIM_MS, type Cooldown, type Evaluation, evaluate, type Found } from './evaluate.js'

/** The part of an evaluation that this run alone sends to a watch. */
export interface Claim extends Evaluation {
  /** Stores that the alert was sent, or releases the claim so that the next run tries again. */
  settle(isSent: boolean): Promise<void>
}

export interface MemoryOptions extends Cooldown {
  readonly database: Database
  readonly clock: Clock
}

/**
 * Remembers which alerts were sent, and when. Several processes may run alerts at once: the run that claimed a key
 * sends its alert. A claim expires, so a process that dies silences no key.
 */
export class AlertMemory {
  readonly #options: MemoryOptions

  constructor(options: MemoryOptions) {
    this.#options = options
  }

  async claim(watch: string, found: Found): Promise<Claim> {
    const { clock, cooldownMs, database } = this.#options
    const { dialect } = database
    const claimant = { watch, id: randomUUID() }
    const nowMs = clock.now()
    const untilMs = nowMs + CLAIM_MS
    const options = this.#options
    const evaluation = await this.#locked(function* () {
      yield* forgetExpired(dialect, nowMs)
      const evaluated = evaluate(yield* readAlerts(dialect, watch), found, options, nowMs)
      const keys = [...evaluated.offenders.map(({ key }) => key), ...evaluated.resolved]
      yield* claimKeys(dialect, claimant, keys, { untilMs, expiresMs: untilMs + DAY_MS })
      return evaluated
    })

    return {
      ...evaluation,
      settle: (isSent) => {
        const sentMs = clock.now()
        // After the cool-down, and after the window in which the key was blocked.
        const expiresMs = sentMs + Math.max(cooldownMs, found.days * DAY_MS) + DAY_MS
        const moments = { nowMs: sentMs, expiresMs }
        return this.#locked(() =>
          isSent ? settleClaim(dialect, claimant, evaluation.offenders, moments) : releaseClaim(dialect, claimant),
        )
      },
    }
  }

  #locked<T>(work: () => SqlWork<T>): Promise<T> {
    return this.#options.database.locked([ALERT_TABLE], work)
  }
}
