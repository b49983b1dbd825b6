import type { Check, Decision } from './algorithm.js'
import type { WrappedStore } from './limiter.js'

/** A larger batch would delay its first check, and keep a synchronous driver busy, for too long. */
const MAX_BATCH_SIZE = 512

interface PendingCheck {
  readonly check: Check
  readonly answer: (decision: Decision) => void
}

interface Batch {
  readonly waiting: PendingCheck[]
  /** The latest time of its checks. */
  nowMs: number
}

/**
 * Creates a check that gathers checks into batches: those that arrive while a batch is under way, or within one turn of
 * the event loop, are sent together.
 *
 * @param store a store whose `check` never fails and answers every check
 */
export function createBatchingCheck(store: WrappedStore) {
  const queue: Batch[] = []
  let underWay = 0
  let isScheduled = false

  /** Sends after the events of this turn, so that checks from other connections join the batch. */
  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      while (underWay < store.concurrency) {
        const batch = queue.shift()
        if (batch === undefined) return
        void send(batch)
      }
    })
  }

  async function send({ waiting, nowMs }: Batch): Promise<void> {
    underWay++
    const checks = waiting.map(({ check }) => check)
    const decisions = await store.check(checks, nowMs)
    underWay--
    if (queue.length > 0) schedule()
    for (const [index, { answer }] of waiting.entries()) {
      const decision = decisions[index]
      if (decision !== undefined) answer(decision)
    }
  }

  function openBatch(nowMs: number, joins: boolean): Batch {
    const last = queue.at(-1)
    // A full batch takes one check more where that belongs to its last one.
    if (last !== undefined && last.waiting.length < (joins ? MAX_BATCH_SIZE + 1 : MAX_BATCH_SIZE)) return last
    const batch = { waiting: [], nowMs }
    queue.push(batch)
    schedule()
    return batch
  }

  return function checkInBatch(check: Check, nowMs: number, joins = false): Decision | Promise<Decision> {
    const known = store.known(check, nowMs)
    if (known !== undefined) return known
    return new Promise((answer) => {
      const batch = openBatch(nowMs, joins)
      batch.nowMs = Math.max(batch.nowMs, nowMs)
      batch.waiting.push({ check, answer })
    })
  }
}
