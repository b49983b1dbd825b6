import { formatCounter, refusalsLimitName } from '../clients/counter.js'
import type { LimitClient } from '../clients/limit-client.js'
import { clientText, type OverrideClient, parseOverrideClient } from '../clients/override-client.js'
import type { Policy, Settlement } from '../limiter/algorithm.js'
import type { Limiter } from '../limiter/limiter.js'
import { MAX_COUNT } from '../limiter/rate.js'
import { toSettlement } from '../limiter/settlement.js'
import { type RuleBan, refusalPolicy } from '../rules/ban.js'
import type { NewBan } from '../rules/bans/ban-table.js'
import type { BanWriter } from '../rules/bans/ban-writer.js'
import type { Rule } from '../rules/rule.js'
import type { Limit, LimitBan, Refusal } from './checked-request.js'

export interface RefusalBansOptions {
  readonly limiter: Pick<Limiter, 'check'>
  readonly writer: Pick<BanWriter, 'write'>
  /** Returns whether a list or an override in force lets a client through, or a part of it. */
  readonly isAllowed: (client: OverrideClient, nowMs: number) => boolean
  /** Sets the counter of a settlement back. It never fails. */
  readonly clear: (settlement: Settlement, nowMs: number) => void | Promise<void>
  readonly log: { error(details: object, message: string): void; warn(details: object, message: string): void }
}

/** The number of characters that are logged of a client's name. */
const SHOWN_LENGTH = 60

/** The ban that a rule has for clients that it refuses. */
interface Banning {
  readonly ruleName: string
  readonly ban: RuleBan
  readonly policy: Policy
}

/** The refusals of a client that are being counted. */
interface Counting {
  /** The number that is still to be counted, and the time of the last one. */
  refusals: number
  nowMs: number
  /** Resolves when all are counted. */
  counted: Promise<void>
}

/**
 * Counts the refusals of rules that ban clients, and has clients banned.
 *
 * Refusals are counted in the store, in an aligned window of the longest period of the rate. Those that come while a
 * client's last ones are being counted are counted together, so that a flood costs one store call at a time. No refusal
 * waits for that; the client's next request by the same rule does, so that it is denied where the last one was enough.
 * This process denies a client from memory while the ban is being written.
 */
export class RefusalBans {
  readonly #options: RefusalBansOptions
  /** The refusals by the counters of the clients. */
  readonly #counting = new Map<string, Counting>()
  /** The clients whose bans are being written. */
  readonly #banned = new Set<string>()
  readonly #underWay = new Set<Promise<void>>()
  #hasWarned = false
  #isFailing = false

  constructor(options: RefusalBansOptions) {
    this.#options = options
  }

  /**
   * Returns the ban of a rule's limit; null where the rule bans no client.
   *
   * @param denial denies a client until its ban is in force
   */
  forRule({ name, ban, block, policy }: Rule, denial: Limit): LimitBan | null {
    if (ban === null || !block) return null
    const banning = { ruleName: name, ban, policy }
    return {
      denial,
      isBanned: (client) => this.#isBanned(client),
      noteRefusal: (checked) => this.#note(checked, banning),
    }
  }

  /** Resolves when all refusals are counted, and all bans written. */
  async close(): Promise<void> {
    await Promise.all([...this.#counting.values()].map(({ counted }) => counted))
    await Promise.all(this.#underWay)
  }

  #isBanned({ counted, counter }: LimitClient): boolean | Promise<boolean> {
    if (this.#banned.has(counted.text)) return true
    const counting = this.#counting.get(counter)
    return counting === undefined ? false : counting.counted.then(() => this.#banned.has(counted.text))
  }

  #note({ client, decision, nowMs }: Refusal, banning: Banning): void {
    // An outage tells nothing about the client, and one that is just being banned starts afresh.
    if (decision.unavailable || this.#banned.has(client.counted.text)) return
    const existing = this.#counting.get(client.counter)
    if (existing !== undefined) {
      existing.refusals++
      existing.nowMs = Math.max(existing.nowMs, nowMs)
      return
    }
    const counting: Counting = { refusals: 1, nowMs, counted: Promise.resolve() }
    this.#counting.set(client.counter, counting)
    counting.counted = this.#count(client, banning, counting).catch((error: unknown) => this.#failed(error))
  }

  async #count(client: LimitClient, banning: Banning, counting: Counting): Promise<void> {
    const { limiter } = this.#options
    const key = formatCounter(refusalsLimitName(banning.ruleName), client.counted)
    try {
      while (counting.refusals > 0) {
        const { refusals, nowMs } = counting
        const policy = refusalPolicy(banning.policy, nowMs)
        const check = { key, policy, cost: refusals }
        counting.refusals = 0
        const decision = await limiter.check(check, nowMs)
        if (!decision.unavailable && decision.count >= banning.ban.after) {
          // Refusals that came meanwhile are from before the ban, like the last one.
          counting.refusals = 0
          this.#ban(client, banning, { ...toSettlement(check, decision, nowMs), cost: MAX_COUNT }, nowMs)
        }
      }
    } finally {
      // The deletion follows the last look at the refusals in one turn: none is noted in between.
      this.#counting.delete(client.counter)
    }
  }

  #ban(
    { counted: { text: client }, clear }: LimitClient,
    { ruleName, ban }: Banning,
    count: Settlement,
    nowMs: number,
  ): void {
    const { isAllowed } = this.#options
    const banned = toBannable(client)
    if (banned === undefined) this.#warn(client, ruleName)
    if (banned === undefined || this.#banned.has(client) || isAllowed(banned, nowMs)) return
    const inClear = clear.text === client ? undefined : toBannable(clear.text)
    if (inClear !== undefined && isAllowed(inClear, nowMs)) return
    const writing = this.#write({ ruleName, client, clear: clear.text, expiresAtMs: nowMs + ban.forMs }, count, nowMs)
      .catch((error: unknown) => this.#failed(error))
      .finally(() => this.#underWay.delete(writing))
    this.#underWay.add(writing)
  }

  /** Has a client banned, and sets its count back. */
  async #write(ban: NewBan, count: Settlement, nowMs: number): Promise<void> {
    const { writer, clear } = this.#options
    this.#banned.add(ban.client)
    try {
      if (!(await writer.write(ban, nowMs))) return
    } finally {
      this.#banned.delete(ban.client)
    }
    await clear(count, nowMs)
    this.#isFailing = false
  }

  #warn(client: string, ruleName: string): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#options.log.warn(
      { rule: ruleName },
      `Rate limit rule cannot ban ${JSON.stringify(client.slice(0, SHOWN_LENGTH))}, for which there can be no override: it has no address, or an id that is too long, or begins or ends with a blank`,
    )
  }

  #failed(error: unknown): void {
    if (this.#isFailing) return
    this.#isFailing = true
    this.#options.log.error(
      { err: error },
      'Rate limit refusals cannot be counted: clients may be banned too late, or again too soon',
    )
  }
}

/** Returns the client of an override that is for exactly this client; undefined where none is. */
function toBannable(client: string): OverrideClient | undefined {
  try {
    const parsed = parseOverrideClient(client)
    return clientText(parsed) === client ? parsed : undefined
  } catch {
    return undefined
  }
}
