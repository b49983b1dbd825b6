import type { TestContext } from 'node:test'
import type { Worker } from 'node:worker_threads'

export interface StartedThread {
  readonly worker: Worker
  /** Resolves when it has said that it is ready. */
  readonly ready: Promise<void>
  readonly exited: Promise<void>
}

/**
 * The threads that this process starts until the test ends. They are listened to from their first moment: on a busy
 * machine one may be ready, or no more, before the test looks again.
 */
export function watchThreads(t: TestContext): readonly StartedThread[] {
  const started: StartedThread[] = []
  const note = (worker: Worker) => started.push(listenTo(worker))
  process.on('worker', note)
  t.after(() => process.off('worker', note))
  return started
}

function listenTo(worker: Worker): StartedThread {
  return {
    worker,
    ready: new Promise((resolve) => worker.once('message', () => resolve())),
    exited: new Promise((resolve) => worker.once('exit', () => resolve())),
  }
}
