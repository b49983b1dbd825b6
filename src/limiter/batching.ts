import type { Check, Decision, Settlement } from './algorithm.js'
import type { SafeStore } from './batch-store.js'

/** A larger batch would delay its first check, and keep a synchronous driver busy, for too long. */
const MAX_BATCH_SIZE = 512
/**
 * The number of checks at which a batch is sent before the turn of the event loop is over: the store works on it while
 * the other requests of the turn are read, and these follow in a batch of their own.
 */
const READY_SIZE = 32

interface PendingCheck {
  readonly check: Check
  readonly answer: (decision: Decision) => void
}

interface PendingSettlement {
  readonly settlement: Settlement
  readonly done: () => void
}

interface Batch {
  readonly waiting: PendingCheck[]
  readonly settling: PendingSettlement[]
  /** The latest time of its checks and settlements. */
  nowMs: number
}

function isCharge({ check }: PendingCheck): boolean {
  return check.charges === true
}

/**
 * Creates functions that gather checks and settlements into batches: those that arrive while no more batches may be under
 * way, or within one turn of the event loop, are sent together; of many, the first ones before the others. The settlements of
 * a batch are sent beside its checks; what refused requests give back is settled before the checks of any later batch.
 *
 * @param isOrdered whether calls of the store take effect in their order, so that none waits for the one before it
 */
export function createBatches(store: SafeStore, isOrdered = false) {
  const queue: Batch[] = []
  /** What refused requests give back, and the settlement of what they gave back before. */
  let returned: Settlement[] = []
  let returning: Promise<void> | undefined
  /** The checks that were decided before they were sent. */
  const abandoned = new WeakSet<Check>()
  let underWay = 0
  let isScheduled = false

  /** Sends after the events of this turn, so that checks from other connections join the batch. */
  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      sendWaiting()
    })
  }

  function sendWaiting(): void {
    while (underWay < store.concurrency) {
      const batch = queue.shift()
      if (batch === undefined) return
      void send(batch)
    }
  }

  async function send({ waiting: queued, settling, nowMs }: Batch): Promise<void> {
    underWay++
    if (returned.length > 0) settleReturned(nowMs)
    if (returning !== undefined && !isOrdered) await returning
    const sent = queued.filter(({ check }) => !abandoned.has(check))
    // One statement takes all charges of a counter, and another one its other checks.
    const waiting = sent.some(isCharge) ? [...sent.filter(isCharge), ...sent.filter((each) => !isCharge(each))] : sent
    const settled = settling.length > 0 ? settle(settling, nowMs) : undefined
    const checks = waiting.map(({ check }) => check)
    const decisions = checks.length > 0 ? await store.check(checks, nowMs) : []
    for (const [index, { check, answer }] of waiting.entries()) {
      answer(decisions[index] ?? store.decideWithout(check, nowMs))
    }
    if (settled !== undefined) await settled
    underWay--
    if (queue.length > 0) schedule()
  }

  function settleReturned(nowMs: number): void {
    const settlements = returned
    returned = []
    const settled = Promise.all([returning, store.settle(settlements, nowMs)]).then(() => {
      if (returning === settled) returning = undefined
    })
    returning = settled
  }

  async function settle(settling: readonly PendingSettlement[], nowMs: number): Promise<void> {
    const settlements = settling.map(({ settlement }) => settlement)
    await store.settle(settlements, nowMs)
    for (const { done } of settling) done()
  }

  function openBatch(nowMs: number, leads: number): Batch {
    const last = queue.at(-1)
    if (last !== undefined && last.waiting.length + last.settling.length + leads < MAX_BATCH_SIZE) {
      last.nowMs = Math.max(last.nowMs, nowMs)
      return last
    }
    const batch = { waiting: [], settling: [], nowMs }
    queue.push(batch)
    schedule()
    return batch
  }

  return {
    /** Returns whether the check just made waits for a batch that is under way. */
    isBehind: () =>
      underWay + queue.length > store.concurrency || (!isOrdered && (returned.length > 0 || returning !== undefined)),
    /** Leaves out a check, if it is not sent yet. Its answer never comes then. */
    abandon: (check: Check): void => void abandoned.add(check),
    check(check: Check, nowMs: number, leads = 0): Decision | Promise<Decision> {
      const local = store.decideLocally(check, nowMs)
      if (local !== undefined) return local
      return new Promise((answer) => {
        const { waiting } = openBatch(nowMs, leads)
        waiting.push({ check, answer })
        if (waiting.length >= READY_SIZE && leads === 0) sendWaiting()
      })
    },
    settle(settlement: Settlement, nowMs: number): Promise<void> {
      return new Promise((done) => openBatch(nowMs, 0).settling.push({ settlement, done }))
    },
    /** Waits until all that was given back is settled. */
    async close(): Promise<void> {
      if (returned.length > 0) settleReturned(queue.at(-1)?.nowMs ?? 0)
      await returning
    },
    /** Settles before the checks of the next batch, which is sent at once where none is under way. */
    giveBack(settlements: readonly Settlement[], nowMs: number): void {
      returned.push(...settlements)
      openBatch(nowMs, 0)
    },
  }
}
