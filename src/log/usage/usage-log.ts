import { detached, MAX_KEY_LENGTH, storable } from '../../ground/storable.js'
import { DAY_MS } from '../../ground/time/clock.js'
import { type RecordBuffer, RecordLog, type RecordLogOptions } from '../record-log.js'
import { type UsageSum, usageValues } from './usage-table.js'

/** What a request has used of a unit, at one moment. */
export interface UsageCharge {
  /** The client as the log may name it: `loggedClient.logged.text` of the request's limit. */
  readonly client: string
  readonly unit: string
  /** The policy of the limit that counts the unit, as events name it; that of the event where no limit does. */
  readonly policy: string
  /** A whole number from 0 on. */
  readonly amount: number
  readonly atMs: number
  /** When the same request charged this unit for this client and policy before; undefined for the first time. */
  readonly previousMs: number | undefined
}

/** The sums of usage in memory, and how they get into the table. */
export class UsageLog extends RecordLog<UsageCharge> {
  /** Returns whether usage has a unit. */
  readonly has: (unit: string) => boolean

  constructor(options: RecordLogOptions, has: (unit: string) => boolean) {
    super(options, new UsageBuffer())
    this.has = has
  }

  /**
   * Counts a charge. Never waits and never throws. A charge is recorded once for each client that the request's limits
   * of the unit count, with the first of its policies, so that a client's sums equal what was charged.
   */
  override record(charge: UsageCharge): void {
    if (this.has(charge.unit)) super.record(charge)
  }
}

/** Adds up charges of the same client, unit, policy and day, so that a stream that charges forty times is one row. */
class UsageBuffer implements RecordBuffer<UsageCharge> {
  #sums = new Map<string, { -readonly [Field in keyof UsageSum]: UsageSum[Field] }>()
  /** The sums that were taken last, which may be under way. */
  #taken: ReadonlyMap<string, UsageSum> = new Map()

  get length(): number {
    return this.#sums.size
  }

  get count(): number {
    return this.#sums.size
  }

  get firstMs(): number | undefined {
    return this.#sums.values().next().value?.firstMs
  }

  has(charge: UsageCharge): boolean {
    const key = keyFor(charge)
    return this.#sums.has(key) || this.#taken.has(key)
  }

  push(charge: UsageCharge): void {
    const { unit, policy, amount, atMs, previousMs } = charge
    const key = keyFor(charge)
    const requests = previousMs === undefined || dayNumber(previousMs) !== dayNumber(atMs) ? 1 : 0
    const sum = this.#sums.get(key)
    if (sum === undefined) {
      const client = detached(stored(charge.client))
      this.#sums.set(detached(key), { firstMs: atMs, client, unit, policy, amount, requests })
    } else {
      sum.amount += amount
      sum.requests += requests
    }
  }

  take() {
    const { firstMs } = this
    if (firstMs === undefined) return undefined
    const rows = Array.from(this.#sums.values(), (sum) => JSON.stringify(usageValues(sum)))
    this.#taken = this.#sums
    this.#sums = new Map()
    return { rows, firstMs }
  }
}

function keyFor({ client, unit, policy, atMs }: UsageCharge): string {
  return `${dayNumber(atMs)} ${unit} ${policy}\0${stored(client)}`
}

/** Returns a client as the table has it: clients choose their texts, which must not fill the memory. */
function stored(client: string): string {
  return storable(client, MAX_KEY_LENGTH)
}

function dayNumber(ms: number): number {
  return Math.floor(ms / DAY_MS)
}
