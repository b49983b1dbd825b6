import { setTimeout as delay } from 'node:timers/promises'

/** Waits, for 5 seconds at most, until something that happens in the background has happened. */
export async function eventually(what: string, happened: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadlineMs = Date.now() + 5_000; !(await happened()); ) {
    if (Date.now() > deadlineMs) throw new Error(`It never happened: ${what}`)
    await delay(10)
  }
}
